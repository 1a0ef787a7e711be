"""An audit: whether a reward model reads what a policy writes."""

from hs2lib.audit.auditing import audit as audit
from hs2lib.audit.labelled import labelling_form as labelling_form
