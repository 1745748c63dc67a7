#!/usr/bin/env python3
"""Writes messages.ndjson and questions.ndjson, the labelled set that recall is measured on.

    python3 tests/data/retrieval/generate.py          writes both files beside this script
    python3 tests/data/retrieval/generate.py --check  writes nothing; fails where they would differ

The stock is hand-written; this script only misspells, combines, and lays everything out in sessions. It uses a
generator of its own, so every Python writes the same bytes.
"""

import json
import pathlib
import re
import sys

from stock_facts import FACTS
from stock_talk import SLOTS, TALK
from stock_versions import COMBINATIONS, LEDGER, SURNAMES, VERSIONS

HERE = pathlib.Path(__file__).parent
SUBSCRIBERS = ["mara", "jonas", "amina", "pieter", "sofia", "takumi", None]
SESSIONS = 210
TALK_MESSAGES = 2420
FIRST = 1704096000000  # 2024-01-01T08:00:00Z
DAY = 86_400_000
DAYS = 660
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October"]
ASKED = ["did {0} lend the {1} {2} to {3}", "{0} {1} {2} fair {3}", "photo of a {1} {2} at the {3} by {0}",
         "review by {0} of the {1} {2} from {3}"]
STOP = set("""a about after all also am an and any are as at be been but by can could did do does for from had has have
he her his how i if in into is it its me my no not of on or our she should so than that the their them then there these
they this to was we were what when where which who why will with would you your us out up over because must may whose
whom since until before during through only him""".split())


class Prng:
    """splitmix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    def below(self, n):
        return self.next() % n

    def pick(self, items):
        return items[self.below(len(items))]

    def shuffled(self, items):
        items = list(items)
        for at in range(len(items) - 1, 0, -1):
            other = self.below(at + 1)
            items[at], items[other] = items[other], items[at]
        return items


def stems(text):
    """The content words of a text without their commonest endings."""
    found = set()
    for word in re.findall(r"[^\W_]+", text.lower()):
        if word in STOP or len(word) < 2:
            continue
        for ending in ("ings", "ing", "ies", "ied", "ed", "es", "ly", "er", "s", "y", "e"):
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)]
                break
        found.add(word)
    return found


def misspelt(text, prng):
    """Every longer word with two letters swapped, one lost or one doubled."""
    words = []
    for word in text.split():
        if len(word) >= 5:
            at = 1 + prng.below(len(word) - 3)
            kind = prng.below(3)
            if kind == 0 and word[at] != word[at + 1]:
                word = word[:at] + word[at + 1] + word[at] + word[at + 2:]
            elif kind == 1:
                word = word[:at] + word[at + 1:]
            else:
                word = word[:at] + word[at] + word[at:]
        words.append(word)
    return " ".join(words)


class Set:
    def __init__(self):
        self.prng = Prng(20260)
        self.messages = []   # (day, order, subscriber, role, text, key)
        self.questions = []  # (class, half, text, keys)

    def say(self, text, day, subscriber, key=None, role="user"):
        self.messages.append([day, self.prng.below(1 << 40), subscriber, role, text, key])

    def ask(self, kind, number, text, keys):
        self.questions.append((kind, "tuning" if number % 2 == 0 else "held-out", text, keys))

    def somewhen(self):
        return self.prng.below(DAYS), self.prng.pick(SUBSCRIBERS)

    def facts(self):
        for number, fact in enumerate(FACTS):
            key = f"fact-{number}"
            day, subscriber = self.somewhen()
            self.say(fact["said"], day, subscriber, key)
            keys, said = [key], fact["said"]
            if "again" in fact:
                # Said once more, some weeks later.
                self.say(fact["again"], min(day + 20 + self.prng.below(60), DAYS - 1), subscriber, f"again-{number}")
                keys, said = [key, f"again-{number}"], f"{said} {fact['again']}"
            for near in fact["near"]:
                self.say(near, *self.somewhen())
            self.ask("exact-word", number, fact["exact"], keys)
            self.ask("paraphrase", number, fact["means"], keys)
            self.ask("typo-or-form", number, fact["forms"] or misspelt(fact["exact"], self.prng), keys)
            shared = stems(fact["means"]) & stems(said)
            assert not shared, f"{fact['means']!r} shares {shared}"
            assert len(stems(fact["exact"]) & stems(fact["said"])) >= 2, fact["exact"]
        # Half of the class are misspellings: the form questions of every other fact are misspelt too.
        forms = [at for at, question in enumerate(self.questions) if question[0] == "typo-or-form"]
        for place, at in enumerate(forms):
            if place % 4 < 2:
                kind, half, _, keys = self.questions[at]
                exact = FACTS[int(keys[0].split("-")[1])]["exact"]
                self.questions[at] = (kind, half, misspelt(exact, self.prng), keys)

    def versions(self):
        for number, (said, now, before) in enumerate(VERSIONS):
            subscriber = self.prng.pick(SUBSCRIBERS)
            span = DAYS // len(said)
            for at, text in enumerate(said):
                self.say(text, at * span + self.prng.below(span - 40), subscriber, f"version-{number}-{at}")
            self.ask("temporal-correction", number, now, [f"version-{number}-{len(said) - 1}"])
            self.ask("temporal-correction", number, before, [f"version-{number}-0"])

    def combinations(self):
        for number, (form, *columns) in enumerate(COMBINATIONS):
            rows = [[]]
            for column in columns:
                rows = [row + [entry] for row in rows for entry in column]
            for place, row in enumerate(rows):
                self.say(form.format(*row), *self.somewhen(), f"combination-{number}-{place}")
            for at, place in enumerate(self.prng.shuffled(range(len(rows)))[:12]):
                self.ask("multi-word", at, ASKED[number].format(*rows[place]), [f"combination-{number}-{place}"])

    def ledger(self):
        numbers = self.prng.shuffled(range(1000, 10000))
        for kind, (form, question) in enumerate(LEDGER):
            people = self.prng.shuffled(SURNAMES)[:40]
            for place, who in enumerate(people):
                values = dict(n=numbers.pop() * 7 + 10_000, who=who, sum=20 + self.prng.below(800),
                              day=1 + self.prng.below(28), month=self.prng.pick(MONTHS))
                key = f"ledger-{kind}-{place}"
                self.say(form.format(**values), *self.somewhen(), key)
                if place < 9:
                    self.ask("name-number", place, question.format(**values), [key])

    def talk(self):
        seen = set()
        said = 0
        while said < TALK_MESSAGES:
            role, form = self.prng.pick(TALK)
            slots = {name: self.prng.pick(values) for name, values in SLOTS.items()}
            text = form.format(**slots)
            if text in seen and "{" in form:
                continue
            seen.add(text)
            self.say(text[0].upper() + text[1:], *self.somewhen(), role=role)
            said += 1

    def lines(self):
        """In the order of time, cut into sessions: what one subscriber said on days that lie together."""
        self.messages.sort()
        ids, messages, opened = {}, [], {}
        for number, (day, _, subscriber, role, text, key) in enumerate(self.messages, start=1):
            session = f"{subscriber or 'all'}-{day * SESSIONS // (DAYS * len(SUBSCRIBERS)):02}"
            opened[session] = opened.get(session, 0) + 1
            at = FIRST + day * DAY + opened[session] * 61_000
            messages.append(dict(id=number, session=session, subscriber=subscriber, role=role, at=at, text=text))
            if key:
                ids[key] = number
        questions = [dict(id=number, **{"class": kind}, half=half, text=text, answers=[ids[key] for key in keys])
                     for number, (kind, half, text, keys) in enumerate(self.questions, start=1)]
        return messages, questions


def main():
    made = Set()
    for part in (made.facts, made.versions, made.combinations, made.ledger, made.talk):
        part()
    differs = False
    for name, lines in zip(("messages", "questions"), made.lines()):
        text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
        path = HERE / f"{name}.ndjson"
        if "--check" in sys.argv:
            differs |= path.read_text(encoding="utf-8") != text
        else:
            path.write_text(text, encoding="utf-8")
            print(f"{len(lines)} {name}")
    sys.exit(1 if differs else 0)


if __name__ == "__main__":
    main()
