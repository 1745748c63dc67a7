"""The public MCP client against herm as a server: over HTTP with a key, and on standard input and output."""
import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

checks = 0


def check(is_so, what):
    global checks
    if not is_so:
        raise SystemExit(f"not so: {what}")
    checks += 1


async def feedback(client, agent, task, who):
    async def say(**said):
        return await client.call_tool("feedback", {"agent": agent, "task": task, **said})

    bad = (await say(value="bad", note="nothing was done")).structured_content
    source = bad["outcome"]["sources"][0]
    check((bad["value"], source["source"], source["note"]) == ("bad", who, "nothing was done"), f"feedback: {bad}")
    corrected = (await say(value=0.7)).structured_content
    moved = corrected["settled"]["version"] == bad["settled"]["version"] + 1
    check(moved and corrected["outcome"]["value"] == 0.7, f"a correction is a step of its own: {corrected}")
    again = (await say(value=0.7)).structured_content
    check(again["settled"] is None and again["outcome"] == corrected["outcome"], "the same again is none")
    try:
        await say(value="great")
        check(False, "a value that is none")
    except Exception as error:
        check("value" in str(error), f"a value that is none is told: {error}")
    nobody = await client.call_tool("feedback", {"agent": agent, "task": "no-such-task", "value": "good"})
    check(nobody.is_error and "no-such-task" in nobody.content[0].text, "a task that is not there is an error result")


async def tour(client, agent, who):
    names = sorted(tool.name for tool in (await client.list_tools()).tools)
    check(names == ["feedback", "recall", "receipt_verify", "run_task", "skills"], f"five tools: {names}")
    ran = (await client.call_tool("run_task", {"agent": agent, "input": "go"})).structured_content
    check(ran["outcome"]["answer"] == '{"done":"yes"}', "a task is answered")
    seq = ran["outcome"]["receiptSeq"]
    verified = (await client.call_tool("receipt_verify", {"agent": agent, "receipt": seq})).structured_content
    check(verified["valid"] and verified["statement"]["predicate"]["task"]["id"] == ran["task"], "its receipt is valid")
    forged = dict(ran["outcome"]["receipt"])
    forged["payload"] = forged["payload"][:-8] + "AAAAAAA="
    verified = await client.call_tool("receipt_verify", {"agent": agent, "envelope": forged})
    check(verified.is_error or not verified.structured_content["valid"], "a forged one is not")
    await feedback(client, agent, ran["task"], who)
    found = (await client.call_tool("recall", {"agent": agent, "query": "go"})).structured_content
    check(found["hits"], "what was said is found")
    listed = (await client.call_tool("skills", {"agent": agent})).structured_content
    check(listed["skills"] == [], "skills are listed")
    missing = await client.call_tool("run_task", {"agent": "99", "input": "go"})
    check(missing.is_error and "no agent 99" in missing.content[0].text, "an agent that is not there is an error result")
    try:
        await client.call_tool("run_task", {"agent": 7})
        check(False, "arguments that do not fit")
    except Exception as error:
        check("input" in str(error) or "string" in str(error), f"arguments that do not fit are told: {error}")


async def main():
    url, key, herm = sys.argv[1:4]
    web = create_mcp_http_client(headers={"authorization": f"Bearer {key}"})
    async with Client(streamable_http_client(url, http_client=web)) as client:
        await tour(client, "7", "feedback")
    refused = create_mcp_http_client(headers={"authorization": "Bearer herm_wrong"})
    try:
        async with Client(streamable_http_client(url, http_client=refused)) as client:
            await client.list_tools()
        check(False, "a wrong key")
    except BaseException:
        check(True, "a wrong key opens nothing")
    environment = {name: os.environ[name] for name in ("HERM_BRAINS", "HERM_CONFIG", "HOME")}
    async with Client(StdioServerParameters(command=herm, args=["mcp"], env=environment)) as client:
        await tour(client, "8", "label")
    print(f"{checks} checks passed")


asyncio.run(main())
