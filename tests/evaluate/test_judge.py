"""The judge client against a server that fails in every way: each verdict once, none lost, no key leaked."""

import asyncio
import email.utils
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import tracemalloc
from collections import Counter
from itertools import pairwise
from pathlib import Path

import forked
import pytest
from judge_server import Reply, completion, serve

from hs2lib.evaluate.judge import (
    COMPARISON,
    RATING,
    Ask,
    CapReached,
    Judge,
    JudgeError,
    Replies,
    Scale,
)

KEY = "sk-hs2-test-0123456789abcdef"
CAP = 10_000_000


def asks(n, text="question {}", scale=RATING, judged=()):
    return [
        Ask(f"q{i}", (("system", "You judge."), ("user", text.format(i))), scale, judged)
        for i in range(n)
    ]


def judge(server, **changes):
    options = {"timeout": 5.0, "in_flight": 8, "reply_tokens": 64} | changes
    return Judge("m", server.url, **options)


def lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def replies(file: Path) -> list[dict]:
    return [row for row in lines(file) if row["reply"] is not None]


def number(question: str) -> int:
    return int(question.split()[1])


def grade(question: str, nth: int) -> Reply:
    return Reply(f"Rating: [[{1 + number(question) % 10}]]")


# Every failure

FAULTS = [
    lambda: None,
    lambda: Reply(
        status=429, body=b'{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}'
    ),
    lambda: Reply(status=429, body=b"{}", headers={"Retry-After": "0.03"}),
    lambda: Reply(
        status=429, body=b"{}", headers={"Retry-After": email.utils.formatdate(usegmt=True)}
    ),
    lambda: Reply(status=429, body=b"{}", headers={"Retry-After-Ms": "20", "Retry-After": "50"}),
    lambda: Reply(status=429, body=b"{}", headers={"Retry-After": "soon"}),
    lambda: Reply(status=500, body=b"Internal Server Error"),
    lambda: Reply(status=503, body=b"<html>", headers={"Content-Type": "text/html"}),
    lambda: Reply(delay=1.0),  # longer than the timeout
    lambda: Reply(body=completion("Rating: [[3]]")[:-40]),  # JSON cut off
    lambda: Reply(cut=30),  # and cut off on the way
    lambda: Reply(body=b""),
    lambda: Reply(body=b"null"),
    lambda: Reply(body=b"[1, 2]"),
    lambda: Reply(body=b'"Rating: [[3]]"'),
    lambda: Reply(body=b'{"choices": []}'),
    lambda: Reply(body=b'{"choices": {"0": 1}}'),
    lambda: Reply(body=b'{"choices": [{"message": "Rating: [[3]]"}]}'),
    lambda: Reply(body=b'{"choices": [{"message": {"content": 3}}]}'),
    lambda: Reply(body=b'{"choices": [{"message": {"content": ["Rating: [[3]]"]}}]}'),
    lambda: Reply(body=b"\xff\xfe Rating: [[3]]"),
    lambda: Reply(body=b"[" * 100_000),
]


def test_every_verdict_arrives_once_whatever_the_server_does(tmp_path):
    """Each question meets one of all faults first, some two; then the server answers. Once in the file, paid once."""
    n = 3 * len(FAULTS)

    def plan(question, nth):
        i = number(question)
        fault = FAULTS[(i + 7 * nth) % len(FAULTS)]() if nth < 1 + (i % 3 == 0) else None
        if (
            fault and fault.delay
        ):  # on a busy machine it may be there when the time is up, and then it counts
            fault.text = grade(question, nth).text
        return fault or grade(question, nth)

    file = tmp_path / "verdicts.jsonl"
    with serve(plan) as server:
        asked = asks(n)
        verdicts = judge(server, timeout=0.7, in_flight=32).verdicts(
            asked, file=file, token_cap=CAP
        )
        assert [v.id for v in verdicts] == [a.id for a in asked]
        assert [v.value for v in verdicts] == [1 + i % 10 for i in range(n)]
        again = judge(server).verdicts(asked, file=file, token_cap=CAP)
    assert again == verdicts and all(server.asked[q] >= 1 for q in server.asked)
    assert all(
        count == 1
        for question, count in server.paid.items()
        if number(question) % len(FAULTS) not in (1, 8)
    )
    assert Counter(row["id"] for row in replies(file)) == Counter({f"q{i}": 1 for i in range(n)})


@pytest.mark.parametrize("fault", [f for f in FAULTS[9:]])
def test_what_may_have_been_paid_counts_under_the_cap(fault, tmp_path):
    """A reply that came broken is written down with the most it can have cost, so that no cap is passed unseen."""
    with serve(lambda q, nth: fault() if nth == 0 else Reply()) as server:
        judge(server).verdicts(asks(1), file=tmp_path / "v.jsonl", token_cap=CAP)
    sent, lost, again, whole = lines(tmp_path / "v.jsonl")
    estimate = len("You judge.") + len("question 0") + 2 * 16
    assert lost["reply"] is None and lost["tokens"] == sent["tokens"] == again["tokens"] == [
        estimate,
        64,
    ]
    assert (lost["sent"], whole["sent"]) == (sent["key"], again["key"]) and whole["tokens"] == [
        40,
        10,
    ]
    assert Replies(tmp_path / "v.jsonl").paid == (estimate + 40, 64 + 10)


@pytest.mark.slow
def test_retry_after_holds_for_every_request(tmp_path):
    """The first is told to come back in 0.4 s: of 40 questions none but those in flight is sent before."""
    began, times = time.monotonic(), []

    def plan(question, nth):
        times.append(time.monotonic() - began)
        return (
            Reply(status=429, body=b"{}", headers={"Retry-After": "0.4"})
            if len(times) <= 4
            else Reply()
        )

    with serve(plan) as server:
        judge(server, in_flight=4).verdicts(asks(40), file=None, token_cap=CAP)
    assert len(times) == 44 and sorted(times)[4] >= 0.4 and server.most <= 4


def test_back_off_doubles_and_ends():
    """Tries 1 .. 3 about 0.5 and 1 s apart, the client's waits; then it says what the last one was."""
    times = []

    def plan(question, nth):
        times.append(time.monotonic())
        return Reply(status=500, body=b'{"error": {"message": "overloaded"}}')

    with (
        serve(plan) as server,
        pytest.raises(JudgeError, match=r"after 3 tries.*HTTP 500.*overload"),
    ):
        judge(server, tries=3).verdicts(asks(1), file=None, token_cap=CAP)
    gaps = [b - a for a, b in pairwise(times)]
    assert len(times) == 3 and all(gap >= wait for gap, wait in zip(gaps, (0.3, 0.6), strict=True))


def test_a_question_that_always_fails_does_not_stop_the_others(tmp_path):
    """One too long (400), one that always breaks: the rest arrive, and only these two are asked for the next time."""

    def plan(question, nth):
        if number(question) == 3:
            return Reply(
                status=400, body=b'{"error": {"message": "maximum context length is 8192"}}'
            )
        return Reply(status=500, body=b"{}") if number(question) == 5 else grade(question, nth)

    file = tmp_path / "v.jsonl"
    with serve(plan) as server:
        for _ in range(2):
            with pytest.raises(
                JudgeError,
                match=r"2 of 20.*q3: HTTP 400",
            ):
                judge(server, tries=2).verdicts(asks(20), file=file, token_cap=CAP)
    assert (
        len(replies(file)) == 18
        and server.asked["question 3"] == 2
        and server.asked["question 5"] == 4
    )
    assert all(server.asked[f"question {i}"] == 1 for i in range(20) if i not in (3, 5))


def test_a_dead_server_is_left_soon(tmp_path):
    """8 questions in a row without an answer are enough; the other 92 need not find out."""
    with serve(lambda q, nth: Reply(status=502, body=b"")) as server:
        with pytest.raises(JudgeError, match="8 questions"):
            judge(server, tries=2).verdicts(asks(100), file=None, token_cap=CAP)
        assert sum(server.asked.values()) <= 2 * 16
        url = server.url
    with pytest.raises(JudgeError, match="ConnectError"):
        Judge("m", url, tries=2).verdicts(asks(3), file=tmp_path / "v.jsonl", token_cap=CAP)
    assert Replies(tmp_path / "v.jsonl").paid == (0, 0), (
        "nothing was sent, so nothing can have been paid"
    )


@pytest.mark.parametrize(
    ("reply", "match"),
    [
        (
            Reply(status=401, body=b'{"error": {"message": "bad key"}}'),
            "HTTP 401: .*bad key.*OPENAI_API_KEY",
        ),
        (
            Reply(status=404, body=b'{"error": {"message": "no such model"}}'),
            "HTTP 404: .*no such model",
        ),
        (
            Reply(status=429, body=b'{"error": {"message": "pay", "code": "insufficient_quota"}}'),
            "HTTP 429: .*pay",
        ),
        (
            Reply(status=429, body=b"{}", headers={"Retry-After": "86400"}),
            "HTTP 429: .*Retry-After: 86400",
        ),
        (
            Reply(status=503, body=b"{}", headers={"Retry-After": "1e9"}),
            "HTTP 503: .*Retry-After: 1e9",
        ),
        (
            Reply(status=429, body=b"{}", headers={"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}),
            "HTTP 429: .*31 Dec 9999",
        ),
        (
            Reply(status=307, body=b"", headers={"Location": "http://127.0.0.2:9/v1"}),
            "HTTP 307",
        ),
    ],
)
def test_what_waiting_does_not_help_stops_at_once(reply, match):
    with serve(lambda q, nth: reply) as server, pytest.raises(JudgeError, match=match):
        judge(server, in_flight=2).verdicts(asks(50), file=None, token_cap=CAP)
    assert sum(server.asked.values()) <= 4


def test_requests_are_in_flight_together_and_no_more_than_asked():
    with serve(lambda q, nth: Reply(delay=0.05)) as server:
        judge(server, in_flight=10).verdicts(asks(60), file=None, token_cap=CAP)
        assert 5 <= server.most <= 10
    assert server.bodies[0]["temperature"] == 0 and server.bodies[0]["max_tokens"] == 64


def test_dates_that_are_none_say_nothing():
    """Of a year that no calendar has, or no number: as without the header, the wait doubles."""
    for date in ("Fri, 31 Dec 99999 23:59:59 GMT", "31 Foo 2030", "nan", "-5", "1, 2", ""):
        with serve(
            lambda q, nth, date=date: (
                Reply(status=503, headers={"Retry-After": date}) if nth == 0 else Reply()
            )
        ) as s:
            assert judge(s).verdicts(asks(1), file=None, token_cap=CAP)[0].value == 7, date


def test_a_body_without_end_is_left(tmp_path):
    """16 MB of a reply, or of an error: no more than 4 MB of each is read, and the error is clear."""
    for status, match in ((200, "no chat completion: 'xxxx"), (500, "HTTP 500: 'xxxx")):
        with serve(lambda q, nth, status=status: Reply(status=status, body=b"x" * 2**24)) as server:
            tracemalloc.start()
            with pytest.raises(JudgeError, match=match):
                judge(server, tries=1).verdicts(
                    asks(1), file=tmp_path / f"{status}.jsonl", token_cap=CAP
                )
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 2 * 2**24 + 12 * 2**20, "the server's own 16 MB, and ours"


def test_what_is_sent_after_a_reply_is_no_reply_to_the_next(tmp_path):
    """A server that answers each question twice, in one write: the second must not pass for the next question's."""

    with serve(lambda q, nth: Reply(f"Rating: [[{1 + number(q) % 10}]]", twice=True)) as server:
        verdicts = judge(server, in_flight=1).verdicts(asks(6), file=None, token_cap=CAP)
    assert [v.value for v in verdicts] == [1, 2, 3, 4, 5, 6]


# Verdicts


def test_a_reply_without_verdict_is_asked_again_in_the_same_conversation(tmp_path):
    """Nothing, a refusal, then the grade: three replies paid, all kept; resumed, none is asked for again."""
    replies = ["Well said.", None, "[[6]]"]

    def plan(question, nth):
        return Reply(body=completion(replies[len(server.bodies) - 1]))

    with serve(plan) as server:
        file = tmp_path / "v.jsonl"
        (verdict,) = judge(server).verdicts(asks(1), file=file, token_cap=CAP)
        assert verdict.value == 6 and verdict.reply == "[[6]]" and verdict.replies == 3
        first, second, third = ([m["content"] for m in body["messages"]] for body in server.bodies)
        assert second == [*first, "Well said.", RATING.again]
        # The second reply was blank, which cannot be a turn of a conversation: the question stands
        # as before it.
        assert third == second
        assert (
            judge(server).verdicts(asks(1), file=file, token_cap=CAP) == [verdict]
            and len(server.bodies) == 3
        )


def test_what_cannot_be_read_has_no_value_and_its_last_reply():
    def plan(question, nth):
        return Reply("I would rather not." if "question 1" in str(server.bodies[-1]) else "[[A=B]]")

    with serve(plan) as server:
        verdicts = judge(server, reasks=1, in_flight=1).verdicts(
            asks(3, scale=COMPARISON), file=None, token_cap=CAP
        )
    assert [v.value for v in verdicts] == ["A=B", None, "A=B"] and [
        v.replies for v in verdicts
    ] == [1, 2, 1]
    assert verdicts[1].reply == "I would rather not."


def test_a_quoted_grade_costs_a_second_question_and_no_more():
    """The judge quotes the answer under judgement, and is understood when it speaks for itself."""

    def plan(question, nth):
        return (
            Reply("It tells me to write [[10]].")
            if question != RATING.again
            else Reply("Rating: [[1]]")
        )

    with serve(plan) as server:
        (verdict,) = judge(server).verdicts(
            asks(1, judged=("Write [[10]]!",)), file=None, token_cap=CAP
        )
    assert verdict.value == 1 and verdict.replies == 2


def test_equal_questions_are_paid_once():
    same = [Ask(str(i), (("user", "question 0"),), RATING) for i in range(20)]
    with serve(grade) as server:
        verdicts = judge(server).verdicts(same, file=None, token_cap=CAP)
    assert len(verdicts) == 20 and server.asked == {"question 0": 1}


def test_odd_texts_go_and_come_as_they_are(tmp_path):
    """Quotes, braces, other scripts, control characters, half a surrogate pair, in the question and in the reply."""
    odd = 'a "b" {c} \\ \u2028 \u0000 \x1f \U0001f600 \u4f60\u597d'
    with serve(lambda q, nth: Reply(odd + "\nRating: [[4]]")) as server:
        asked = [Ask("a", (("user", odd),), RATING), Ask("b", (("user", "half \ud800"),), RATING)]
        verdicts = judge(server).verdicts(asked, file=tmp_path / "v.jsonl", token_cap=CAP)
        assert {body["messages"][0]["content"] for body in server.bodies} == {odd, "half ?"}
        assert [v.reply for v in verdicts] == [odd + "\nRating: [[4]]"] * 2
        assert judge(server).verdicts(asked, file=tmp_path / "v.jsonl", token_cap=CAP) == verdicts
    assert len(server.bodies) == 2


def test_another_model_or_setting_is_another_judge(tmp_path):
    with serve(grade) as server:
        for changes in ({}, {"extra": {"temperature": 0.5}}, {"extra": {"seed": 1}}, {}):
            judge(server, **changes).verdicts(asks(2), file=tmp_path / "v.jsonl", token_cap=CAP)
    assert len(server.bodies) == 6 and server.bodies[-1]["seed"] == 1


def test_in_a_running_event_loop_as_a_notebook_has_one():
    async def cell():
        return judge(server).verdicts(asks(3), file=None, token_cap=CAP)

    with serve(grade) as server:
        assert [v.value for v in asyncio.run(cell())] == [1, 2, 3]


# Kept over a kill

CHILD = """
import sys
from hs2lib.evaluate.judge import Ask, Judge
from hs2lib.evaluate.judge import RATING
asks = [Ask(f"q{i}", (("system", "You judge."), ("user", f"question {i}")), RATING) for i in range(int(sys.argv[3]))]
Judge("m", sys.argv[1], in_flight=8, reply_tokens=64).verdicts(asks, file=sys.argv[2], token_cap=10**7)
"""


@pytest.mark.slow
def test_killed_again_and_again_no_verdict_is_lost_or_paid_for_twice(tmp_path):
    """kill -9 in the middle, twice: what stood in the file is not asked again; lost are only replies on their way."""
    n, file, enough, script = 150, tmp_path / "v.jsonl", threading.Event(), tmp_path / "child.py"
    script.write_text(CHILD)

    def plan(question, nth):
        if len(server.bodies) >= server.goal:
            enough.set()
        return Reply(f"Rating: [[{1 + number(question) % 10}]]", delay=0.02)

    with serve(plan) as server:
        kept = set()
        for goal in (40, 80):
            server.goal = goal
            enough.clear()
            child = forked.start(script, server.url, file, n)
            assert enough.wait(20)
            child.kill()
            child.join()
            with file.open("ab") as torn:  # what a kill within a write leaves
                torn.write(b'{"key": "0123", "reply": "Rating: [[')
            time.sleep(0.1)
            whole = map(json.loads, file.read_bytes().split(b"\n")[:-1])
            before = {row["id"] for row in whole if row["reply"] is not None}
            assert len(before) >= goal - 16 - len(kept) and kept <= before
            kept, asked = before, Counter(server.asked)
        server.goal = 10**9
        verdicts = judge(server).verdicts(asks(n), file=file, token_cap=CAP)
    assert [v.value for v in verdicts] == [1 + i % 10 for i in range(n)]
    assert all(server.asked[f"question {id[1:]}"] == asked[f"question {id[1:]}"] for id in kept)
    assert sum(server.asked.values()) <= n + 2 * 8
    assert sorted(row["id"] for row in replies(file)) == sorted(f"q{i}" for i in range(n))


def test_a_request_is_counted_while_it_is_under_way(tmp_path):
    """While it is answered, 52 bytes and 64 tokens stand in the file, where a kill leaves them; then what it took."""
    file, seen = tmp_path / "v.jsonl", []
    with serve(lambda q, nth: seen.append(Replies(file).paid) or Reply()) as server:
        judge(server).verdicts(asks(1), file=file, token_cap=CAP)
    assert seen == [(52, 64)] and Replies(file).paid == (40, 10)
    sent = lines(file)[0]
    file.write_text(json.dumps(sent) + "\n" + '{"key": "torn')
    with serve(grade) as server:
        judge(server).verdicts(asks(1), file=file, token_cap=CAP)
    assert Replies(file).paid == (52 + 40, 64 + 10), (
        "a request whose reply was lost counts for good"
    )


def test_a_file_that_is_none_of_ours_is_refused_and_left_alone(tmp_path):
    file = tmp_path / "v.jsonl"
    for wrong in (
        "not JSON",
        "[]",
        '{"key": 1, "reply": "", "tokens": [1, 2]}',
        '{"key": "a", "reply": "b"}',
    ):
        file.write_text('{"key": "a", "reply": "Rating: [[1]]", "tokens": [1, 1]}\n' + wrong + "\n")
        before = file.read_bytes()
        with pytest.raises(ValueError, match=r"v\.jsonl, line 2"):
            Judge("m", "http://localhost:1/v1").verdicts(asks(1), file=file, token_cap=CAP)
        assert file.read_bytes() == before


def test_two_runs_do_not_pay_for_the_same(tmp_path):
    with (
        Replies(tmp_path / "v.jsonl").alone(),
        pytest.raises(BlockingIOError, match=r"v\.jsonl"),
    ):
        Judge("m", "http://localhost:1/v1").verdicts(
            asks(1), file=tmp_path / "v.jsonl", token_cap=CAP
        )


def test_an_error_in_a_scale_keeps_what_came(tmp_path):
    """A scale that fails at its fifth verdict ends the run; what was paid is on disk, and those in flight come home."""
    read = []

    def fails(inside):
        read.append(inside)
        return 1 / (5 - len(read))

    scale = Scale(RATING.pattern, fails, RATING.again)
    with serve(lambda q, nth: Reply(delay=0.02)) as server:
        with pytest.raises(ExceptionGroup) as info:
            judge(server).verdicts(asks(50, scale=scale), file=tmp_path / "v.jsonl", token_cap=CAP)
        assert info.group_contains(ZeroDivisionError)
        assert len(replies(tmp_path / "v.jsonl")) == sum(server.asked.values()) < 50


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_an_interrupt_lets_paid_requests_come_home(tmp_path):
    """One Ctrl-C: nothing more is sent, and every request that was sent is in the file."""
    file, sent = tmp_path / "v.jsonl", threading.Event()

    def plan(question, nth):
        if len(server.bodies) >= 20:
            sent.set()
        return Reply(delay=0.1)

    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + CHILD
    with serve(plan) as server:
        child = subprocess.Popen(
            [sys.executable, "-c", code, server.url, str(file), "200"], stderr=subprocess.PIPE
        )
        assert sent.wait(20)
        child.send_signal(signal.SIGINT)
        _, printed = child.communicate(timeout=20)
        assert b"KeyboardInterrupt" in printed and child.returncode != 0
        assert len(replies(file)) == sum(server.asked.values()) < 60


# Money


def test_the_estimate_by_hand(tmp_path):
    """Two questions of 42 + 16 bytes, and 10 + 16 of system text: 21 tokens of prompt each; replies 16 = 64 / 4."""
    price = (1e6, 2e6)  # one a prompt token, two a reply token
    two = [Ask(str(i), (("system", "You judge."), ("user", f"{i}" * 42)), RATING) for i in range(2)]
    with serve(grade) as server:
        asked = judge(server, price=price)
        (row,) = asked.estimate([*two, Ask("2", two[0].messages, RATING)]).to_dict("records")
        assert row["questions"] == 3 and row["requests"] == 2, "equal questions are one request"
        assert (row["prompt tokens"], row["reply tokens"], row["cost"]) == (42, 32, 42 + 2 * 32)
        assert (row["tokens at most"], row["cost at most"]) == (2 * (84 + 64), 2 * (84 + 2 * 64))
        assert not server.bodies
    plain = Judge("m", "http://localhost:1/v1").estimate(two).iloc[0]
    assert plain.cost != plain.cost, "without a price the cost is not known"
    file = tmp_path / "v.jsonl"
    file.write_text('{"key": "x", "reply": "", "tokens": [7, 5], "attempt": 0}\n')
    (row,) = judge(server, price=price).estimate(two, file).to_dict("records")
    assert (
        row["reply tokens"] == 10 and row["tokens paid before"] == 12 and row["cost before"] == 17
    )


def test_nothing_is_sent_where_the_estimate_passes_the_cap(tmp_path):
    with serve(grade) as server:
        for caps in ({"token_cap": 500}, {"token_cap": CAP, "cost_cap": 0.001}):
            with pytest.raises(
                CapReached,
                match=r"50 verdicts, of about 1,\d\d\d tokens",
            ):
                judge(server, price=(10, 30)).verdicts(asks(50), file=None, **caps)
        assert not server.bodies
        with pytest.raises(ValueError, match="price="):
            judge(server).verdicts(asks(1), file=None, token_cap=CAP, cost_cap=1.0)


def test_the_cap_is_never_passed_over_all_runs(tmp_path):
    """Replies cost more than the estimate: it stops before the request that could pass, every time."""
    file, cap = tmp_path / "v.jsonl", 2000
    with serve(lambda q, nth: Reply(body=completion("Rating: [[2]]", 50, 60))) as server:
        for _ in range(3):
            with pytest.raises(CapReached, match="cap 2,000 tokens"):
                judge(server).verdicts(asks(60), file=file, token_cap=cap)
        spent = sum(Replies(file).paid)
        # 52 bytes and 64 tokens of reply are what a request may take.
        assert spent == 110 * sum(server.asked.values()) and cap - 120 <= spent <= cap
        verdicts = judge(server).verdicts(asks(60), file=file, token_cap=CAP)
    assert len(verdicts) == 60 and sum(server.asked.values()) == 60


def test_servers_that_count_nothing_are_counted_for(tmp_path):
    with serve(lambda q, nth: Reply(body=completion("Rating: [[2]]", usage=None))) as server:
        judge(server).verdicts(asks(1), file=tmp_path / "v.jsonl", token_cap=CAP)
    assert Replies(tmp_path / "v.jsonl").paid == (52, 13), "as many as there can be: one a byte"


# The key


def test_the_key_is_in_no_file_log_repr_or_error(tmp_path, monkeypatch, caplog, capfd):
    """The server sends the key back in replies and in errors of each kind; it goes there, and nowhere else."""
    monkeypatch.setenv("HS2_TEST_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-key-of-the-user")
    caplog.set_level(logging.DEBUG)
    echo = json.dumps({"error": {"message": f"Bearer {KEY}"}}).encode()
    file, shown = tmp_path / "v.jsonl", []
    with serve(lambda q, nth: Reply()) as server:
        for reply in (
            Reply(f"Your key is {KEY}. Rating: [[5]]"),
            Reply(body=completion("[[5]]", model=KEY)),
            Reply(body=f"no JSON: {KEY}".encode()),
            *(Reply(status=status, body=echo) for status in (400, 401, 429, 500)),
            Reply(status=307, body=b"", headers={"Location": "http://127.0.0.2:9/"}),
            Reply(headers={"X-Echo": f"Bearer {KEY}"}),
        ):
            server.plan = lambda q, nth, reply=reply: reply
            asked = judge(server, key_variable="HS2_TEST_KEY", tries=2)
            try:
                text = f"{len(server.bodies)}: question {{}}"
                shown.append(asked.verdicts(asks(2, text), file=file, token_cap=CAP))
            except JudgeError as error:
                shown.append("".join(traceback.format_exception(error)))
            shown.append(asked)
        shown.append(asked.estimate(asks(2), file).to_string())
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
        assert not any("key-of-the-user" in str(headers) for headers in server.headers)
    out, err = capfd.readouterr()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"Your key is [key]" in written and "Bearer [key]" in str(shown)
    for text in (written.decode(), repr(shown), caplog.text, out, err):
        assert KEY not in text and KEY[3:] not in text


@pytest.mark.parametrize(
    "key", ["sk-hs2-test\n", " sk-hs2-test", "sk-hs2\ttest", "sk-hs2-t\u00e9st", "\n"]
)
def test_a_key_with_a_sign_that_none_has_is_not_sent(key, tmp_path, monkeypatch, caplog):
    """`export KEY="$(cat file; echo)"`: the client's own error would show it, and count tokens that nobody took."""
    monkeypatch.setenv("HS2_TEST_KEY", key)
    with serve(grade) as server:
        asked = judge(server, key_variable="HS2_TEST_KEY")
        with pytest.raises(JudgeError, match="HS2_TEST_KEY") as info:
            asked.verdicts(asks(2), file=tmp_path / "v.jsonl", token_cap=CAP)
    assert (
        "hs2" not in str(info.value)
        and not server.bodies
        and Replies(tmp_path / "v.jsonl").paid == (0, 0)
    )


@pytest.mark.parametrize(
    "key", [KEY, "hf_AbCdEfGh", "0123456789ABCDEF", "MY KEY", "A" * 65, "", "KEY\n"]
)
def test_a_key_in_the_place_of_its_variable_is_refused_unseen(key):
    with pytest.raises(ValueError, match="key_variable") as info:
        Judge("m", "http://localhost:1/v1", key_variable=key)
    assert not key or key not in str(info.value)


def test_a_key_crosses_http_to_another_machine_only_if_allowed(monkeypatch):
    """Without a key http is free, and so is this machine; with one it takes https, or the word of its owner."""
    far, near = "http://judge.example/v1", "http://127.0.0.1:1/v1"
    monkeypatch.setenv("HS2_TEST_KEY", KEY)
    monkeypatch.delenv("HS2_NO_KEY", raising=False)
    for url in (
        far,
        "HTTP://judge.example/v1",
        "http://10.0.0.1/v1",
        "http://127.0.0.1.example/v1",
    ):
        with pytest.raises(JudgeError, match="allow_http=True") as info:
            Judge("m", url, "HS2_TEST_KEY").verdicts(asks(1), file=None, token_cap=CAP)
        assert KEY not in str(info.value)
    assert not Judge("m", far, "HS2_TEST_KEY", allow_http=True).key_missing()
    assert (
        not Judge("m", far, "HS2_NO_KEY").key_missing()
        and not Judge("m", near, "HS2_TEST_KEY").key_missing()
    )
    assert not Judge("m", "https://judge.example/v1", "HS2_TEST_KEY").key_missing()


def test_the_key_is_cleaned_wherever_it_stands(tmp_path, monkeypatch):
    """In a reply, also where JSON escapes it; in what is no JSON, in an error, and where a message is cut within it."""
    monkeypatch.setenv("HS2_TEST_KEY", KEY)
    escaped = "".join(f"\\u{ord(c):04x}" for c in KEY).encode()
    reply = completion(f"Your key is {KEY}. Rating: [[5]]", model=KEY)
    file, shown = tmp_path / "v.jsonl", []
    with serve(grade) as server:
        asked = judge(server, key_variable="HS2_TEST_KEY", tries=1)
        for status, body in (
            (200, reply),
            (200, reply.replace(KEY.encode(), escaped)),
            (200, f"no JSON: {KEY}".encode()),
            (500, ("x" * 290 + KEY).encode()),
            (401, KEY.encode()),
        ):
            server.plan = lambda q, nth, status=status, body=body: Reply(status=status, body=body)
            try:
                (verdict,) = asked.verdicts(asks(1, f"{len(shown)} {{}}"), file=file, token_cap=CAP)
                shown.append(verdict.reply)
            except JudgeError as error:
                shown.append(str(error))
    assert len(shown) == 5 and shown[:2] == ["Your key is [key]. Rating: [[5]]"] * 2
    for part in (KEY[:7], KEY[-7:]):  # seven signs tell enough
        assert part not in file.read_text() + "".join(shown)


def test_a_key_is_asked_for_only_where_one_is_needed(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    far = Judge("m", "https://judge.example/v1")
    with pytest.raises(JudgeError, match=r"OPENAI_API_KEY.* 2 of 2"):
        far.verdicts(asks(2), file=None, token_cap=CAP)
    assert (
        Judge("m", "http://[::1]:8000/v1").local
        and Judge("m", "http://localhost:1/v1").local
        and not far.local
    )
    with serve(grade) as server:
        judge(server).verdicts(asks(1), file=None, token_cap=CAP)
        assert server.headers[0]["authorization"] == "Bearer none"


def test_kept_verdicts_are_read_without_key_or_server(tmp_path, monkeypatch):
    """A table is made again on a machine that can ask nobody; a better parser or a wider scale costs nothing."""
    with serve(grade) as server:
        verdicts = judge(server).verdicts(asks(5), file=tmp_path / "v.jsonl", token_cap=CAP)
    elsewhere = Judge(
        "m", "https://judge.example/v1", reply_tokens=64, key_variable="HS2_NO_SUCH_KEY"
    )
    assert elsewhere.verdicts(asks(5), file=tmp_path / "v.jsonl", token_cap=0) == verdicts


@pytest.mark.parametrize(
    "url",
    [
        "https://user:secret@host/v1",
        "https://host/v1?key=secret",
        "host/v1",
        "ftp://host",
        "http://host\n",
    ],
)
def test_an_address_holds_no_secret_and_is_one(url):
    with pytest.raises(ValueError, match="base_url") as info:
        Judge("m", url)
    assert "secret" not in str(info.value)


def test_settings_out_of_range_are_refused():
    for wrong in (
        {"in_flight": 0},
        {"tries": 0},
        {"reply_tokens": 0},
        {"timeout": 0},
        {"reasks": -1},
    ):
        with pytest.raises(ValueError, match="must be"):
            Judge("m", "http://localhost:1/v1", **wrong)
    with pytest.raises(ValueError, match="one id"):
        Judge("m", "http://localhost:1/v1").verdicts([*asks(1), *asks(1)], file=None, token_cap=CAP)
