"""The public OpenAI client against a herm server: agent 7 is the model agent-7."""
from openai import AuthenticationError, NotFoundError, OpenAI

client = OpenAI(max_retries=0)
checks = 0


def check(is_so, what):
    global checks
    if not is_so:
        raise SystemExit(f"not so: {what}")
    checks += 1


check([model.id for model in client.models.list()] == ["agent-7"], "the agents are models")
ask = {"model": "agent-7", "messages": [{"role": "user", "content": "go"}]}
answer = client.chat.completions.create(**ask)
check(answer.choices[0].message.content == '{"done":"yes"}', "an answer")
check(answer.choices[0].finish_reason == "stop" and answer.usage.total_tokens == 10, "why it ended and what it used")
check(answer.model_extra["herm"]["receipt"]["signatures"], "a receipt")
stream = client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True})
pieces = list(stream)
text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
check(text == '{"done":"yes"}' and pieces[-1].usage.total_tokens == 10, "a stream")
try:
    client.chat.completions.create(**{**ask, "model": "agent-9"})
    check(False, "a model that is not there")
except NotFoundError as error:
    check(error.code == "model_not_found", "a model that is not there is told")
try:
    OpenAI(max_retries=0, api_key="herm_wrong").models.list()
    check(False, "a wrong key")
except AuthenticationError:
    check(True, "a wrong key is told")
print(f"{checks} checks passed")
