"""Does a reward model read what a policy writes?"""

from hs2lib.audit.auditing import audit as audit
