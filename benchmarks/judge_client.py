"""The judge client: 500 verdicts at 32 in flight against a server on loopback that answers each
after 50 ms.

Nothing can be faster than ceil(500 / 32) rounds of 50 ms, 0.8 s; the goal is at most 1.3 times
that, every reply written to its file, parsed and counted against the cap. The bare loop is the
openai package alone with the same 32 workers, its replies thrown away. The server is a process of
its own, so that its work is not the client's.
"""

import asyncio
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import common
import openai

from hs2lib.evaluate.judge import RATING, Ask, Judge

N, IN_FLIGHT, LATENCY = 500, 32, 0.05
# About as long as an MT-Bench prompt with an answer in it.
ASKS = [
    Ask(str(i), (("system", "You judge."), ("user", f"{i} " + "word " * 600)), RATING)
    for i in range(N)
]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection: the number that a question begins with, as a grade from 1 to 10."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")
            )
            body = json.loads(await reader.readexactly(int(length.partition(b":")[2])))
            await asyncio.sleep(LATENCY)
            number = int(body["messages"][-1]["content"].split()[0])
            message = {
                "role": "assistant",
                "content": f"A fair answer.\nRating: [[{1 + number % 10}]]",
            }
            row = {
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "model": "judge",
            }
            row["usage"] = {"prompt_tokens": 610, "completion_tokens": 12}
            content = json.dumps(row).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(content), content))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve() -> None:
    """Serve until killed; the port is the first line on standard output."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=128)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def bare(judge: Judge) -> None:
    """The openai package alone."""

    async def run() -> None:
        todo = list(ASKS)

        async def worker() -> None:
            while todo:
                _, body = judge.request(todo.pop().messages, 0)
                await client.chat.completions.create(**body)

        async with openai.AsyncOpenAI(api_key="none", base_url=judge.base_url) as client:
            await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))

    asyncio.run(run())


def main() -> None:
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True
    )
    try:
        judge = Judge(
            "judge", f"http://127.0.0.1:{int(server.stdout.readline())}/v1", in_flight=IN_FLIGHT
        )
        with tempfile.TemporaryDirectory() as folder:
            files = (Path(folder) / f"{i}.jsonl" for i in range(100))

            def ours() -> None:
                file = next(files)
                verdicts = judge.verdicts(ASKS, file=file, token_cap=5_000_000)
                assert [verdict.value for verdict in verdicts] == [1 + i % 10 for i in range(N)]
                rows = [json.loads(line) for line in file.read_text().splitlines()]
                keys = Counter(row["key"] for row in rows if row["reply"] is not None)
                assert len(keys) == N and set(keys.values()) == {1}

            ours()  # the first call imports
            timings = common.times(
                {"hs2lib.evaluate.judge": ours, "openai package alone": lambda: bare(judge)},
                repeats=7,
            )
    finally:
        server.kill()
        server.wait()
    bound = math.ceil(N / IN_FLIGHT) * LATENCY
    medians = common.medians(timings)
    ours_s = medians["hs2lib.evaluate.judge"]
    common.write(
        "judge_client",
        compared=f"the latency bound, {bound:.2f} s, against our judge client: {N} verdicts, {IN_FLIGHT} in flight",
        ratio=bound / ours_s,
        goal="at most 1.3 times the latency bound (ratio above 0.77)",
        met=ours_s <= 1.3 * bound,
        check="every verdict as the server gave it, in order, and once in the file",
        times_the_bound=ours_s / bound,
        openai_alone_times_the_bound=medians["openai package alone"] / bound,
        timings=timings,
        packages=("httpx2", "openai"),
    )


if __name__ == "__main__":
    asyncio.run(serve()) if "--serve" in sys.argv else main()
