#!/usr/bin/env python3
"""Writes the families of `herm learn bench` into seed/families, or with --check compares them with what is there.

Everything comes from the word lists and the seed below: the same at every run, on every machine. Another seed gives
fresh tasks of the same kinds:  generate.py --seed 2 --to DIR
"""

import argparse
import json
import pathlib
import sys

SEED = 19
TASKS = 80

OBJECTS = """abacus amphora anvil armchair astrolabe banner barometer bathtub beehive bellows birdcage boomerang bracelet
brooch bugle bust cannon cauldron cello chalice chariot chessboard churn cradle crossbow crown dagger dollhouse doublet
drawbridge dulcimer earring fiddle figurehead flail flute footstool fresco gargoyle goblet gong gramophone halberd harp
harness hourglass icon inkwell jug kayak keystone lectern locket loom lute mandolin manuscript mask medal mosaic obelisk
ocarina padlock parasol periscope plough portrait pulpit puppet quill sampler sarcophagus sceptre scroll sextant shield
sledge spindle sundial tapestry tiara totem tunic typewriter urn visor weathervane yoke""".split()

SURNAMES = """Abbott Barlow Beckett Birch Bowden Brock Calder Carver Chandler Clegg Colby Corbin Crane Dalton Denham Dobson
Draper Dunmore Eldridge Farrow Fenwick Fielding Fletcher Galloway Garrick Gibson Godwin Gorman Hadley Haines Hartley Hobbs
Holbrook Ingham Jarrett Jessop Keating Kendall Kirby Langley Larkin Lockwood Lowell Maddox Mallory Marsden Mercer Milburn
Naylor Nesbitt Norcross Oakes Osgood Palmer Parrish Penrose Pickett Prescott Quigley Radford Ramsey Redfern Ridley Rowland
Sadler Sawyer Selby Sheldon Skelton Stanton Tanner Thorne Tilden Underwood Vance Wadsworth Walden Warwick Whitby Yardley
Yates Yeoman Zeller""".split()

FIRST_NAMES = """Adele Agnes Albert Alma Amos Anton Arthur Astrid Basil Beatrice Bernard Bianca Bruno Camilla Cecil Clara
Conrad Cyril Dagmar Daphne Doris Edgar Edith Edwin Elsa Emil Ernest Esther Felix Fergus Flora Frida Gerald Gilbert Greta
Gustav Harriet Hector Helga Horace Ida Ingrid Irene Ivor Jasper Jonas Judith Klara Leonard Lotte Lucian Mabel Magnus
Marius Martha Maud Milton Minna Myrtle Nadia Nora Norbert Olga Oscar Otto Paula Percy Petra Quentin Ralph Rhoda Rosalind
Rufus Selma Sigrid Stella Sylvia Thea Tobias Ulrich Ursula Vera Victor Wilma""".split()

PLACES = """Amberley Ashcombe Bankfoot Barrowby Beckside Birkwood Blackford Bramhope Brigsley Burnham Calverley Castleton
Coldstream Crosby Dalewater Darnton Deepford Drayton Dunsop Eastwick Elmsett Farnley Fishlake Flaxton Fosdyke Foxholes
Garforth Gilling Glenmoor Goathland Greenhow Hambleton Harewell Hebden Hornby Ilkeston Kelbrook Kettlewell Kirkby
Langwith Lindale Littondale Longford Lowick Malham Marrick Masham Melmerby Middleham Millbeck Morland Netherby Norham
Oakworth Ottering Patrington Pickhill Ravenglass Redmire Ribblehead Rosedale Rudston Salthouse Sandholme Scarrow Sedbergh
Silloth Skipwith Sleights Stainforth Swaledale Tadcaster Thornwick Ulverby Wansford Wathgill Welburn Westray Whinfell
Wolsing Wyke Yarrow Yearsley""".split()

FURNITURE = [f"{wood} {piece}" for wood in "ash beech birch cedar cherry elm larch maple oak walnut".split()
             for piece in "bench bookcase cabinet chest counter desk ladder settle shelf table".split()]

ARTICLES = """accordion anorak apron aquarium atlas backpack balalaika banjo barrow bicycle binoculars blender briefcase camcorder
camera canoe chainsaw clarinet coffeepot colander cot crib cushion dinghy dishwasher drill duvet easel fountain
freezer griddle guitar hairdryer hammock hamper handcart harmonica headlamp hoover hotplate humidifier iron juicer
kayak kettle keyboard kneeler ladle lantern lathe lawnmower letterbox loudspeaker magnifier mattress metronome
microscope moped nutcracker oboe oven parka percolator planter pram projector pushchair racket radio recorder rucksack
sander saxophone scooter snowboard steamer stopwatch suitcase surfboard tandem telescope tent toaster toolbox tricycle
trombone turntable typewriter unicycle viola wetsuit wheelbarrow xylophone zither""".split()


class Stream:
    """SplitMix64: the same numbers everywhere."""

    def __init__(self, seed):
        self.state = seed & (2**64 - 1)

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    def below(self, bound):
        return self.next() * bound >> 64

    def choice(self, items):
        return items[self.below(len(items))]

    def shuffled(self, items):
        items = list(items)
        for last in range(len(items) - 1, 0, -1):
            at = self.below(last + 1)
            items[last], items[at] = items[at], items[last]
        return items

    def numbers(self, count, first, last, without=()):
        """Different numbers."""
        drawn = [n for n in self.shuffled(range(first, last + 1)) if n not in without]
        return drawn[:count]


def text(longest=40):
    return {"type": "string", "maxLength": longest}


def schema(properties, required):
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def check_number(number):
    return {"contains": number}


def museum(s):
    """Where things are: one of four registers lists everything, and the role does not say which."""
    pieces = s.shuffled(OBJECTS)[:TASKS]
    bays = s.numbers(TASKS, 100, 899)
    ask = ["Where does the {} stand?", "In which bay is the {}?", "Where can I see the {}?"]
    rows = [{"args": {"piece": p, "register": "white"}, "result": f"The {p} stands in bay {b}."} for p, b in zip(pieces, bays)]
    tasks = [(s.choice(ask).format(p), check_number(b)) for p, b in zip(pieces, bays)]
    tool = {
        "name": "search_register",
        "description": "Says in which bay a piece stands. Each register is kept by one of the wardens.",
        "schema": schema({"piece": text(), "register": {"enum": ["blue", "green", "red", "white"]}}, ["piece", "register"]),
        "example": {"question": "Where does the globe stand?", "args": {"piece": "globe", "register": "red"},
                    "result": "The globe stands in bay 907.", "answer": "bay 907"},
        "table": "search_register.jsonl",
        "otherwise": "The {register} register does not list the {piece}; another register may.",
    }
    return {
        "about": "One of four registers lists every piece, and the role does not say which.",
        "group": "one call",
        "role": "You tell visitors where the pieces of a museum stand. Look every piece up with a tool, then answer with its bay.",
        "skill": ("find-a-piece", "Finds a piece of the museum. Use when someone asks where a piece stands.",
                  "Call search_register with the register white. Answer with the bay that it names."),
        "tools": [(tool, rows)], "tasks": tasks,
    }


def ferry(s):
    """Two steps: the number of a booking from one tool, the cabin from another."""
    names = s.shuffled(SURNAMES)[:TASKS]
    bookings = s.numbers(TASKS, 4000, 8999)
    cabins = s.numbers(TASKS, 100, 799)
    rows = [{"args": {"passenger": n}, "result": f"The booking of {n} has the number {b}."} for n, b in zip(names, bookings)]
    details = [{"args": {"number": str(b)}, "result": f"Booking {b} has cabin {c} on deck {s.choice('ABCD')}."}
               for b, c in zip(bookings, cabins)]
    ask = ["Which cabin does {} have?", "In which cabin does {} travel?", "What is the cabin of {}?"]
    tasks = [(s.choice(ask).format(n), check_number(c)) for n, c in zip(names, cabins)]
    # Behind all draws: the tasks of a seed stay what they were.
    rows.append({"args": {"passenger": "Ibbotson"}, "result": "The booking of Ibbotson has the number 3217."})
    details.append({"args": {"number": "3217"}, "result": "Booking 3217 has cabin 864 on deck B."})
    shown = {"input": "Which cabin does Ibbotson have?",
             "calls": [{"tool": "find_booking", "args": {"passenger": "Ibbotson"}},
                       {"tool": "booking_details", "args": {"number": "3217"}}],
             "answer": "cabin 864", "check": check_number(864)}
    find = {
        "name": "find_booking",
        "description": "Says the number of a passenger's booking.",
        "schema": schema({"passenger": text()}, ["passenger"]),
        "example": {"question": "Which booking does Quist have?", "args": {"passenger": "Quist"},
                    "result": "The booking of Quist has the number 9902.", "answer": "booking 9902"},
        "table": "find_booking.jsonl",
        "otherwise": "No booking is in the name {passenger}.",
    }
    look = {
        "name": "booking_details",
        "description": "Says what a booking holds.",
        "schema": schema({"number": text(12)}, ["number"]),
        "example": {"question": "On which deck is booking 9917?", "args": {"number": "9917"},
                    "result": "Booking 9917 has cabin 88 on deck E.", "answer": "deck E"},
        "table": "booking_details.jsonl",
        "otherwise": "There is no booking with the number {number}.",
    }
    return {
        "about": "The cabin stands in the details of a booking, and its number has to be found first.",
        "group": "two calls",
        "role": "You tell passengers of a ferry which cabin they have. Look it up with the tools, then answer with the cabin.",
        "skill": ("find-a-cabin", "Finds the cabin of a passenger. Use when someone asks which cabin a passenger has.",
                  "Call find_booking with the passenger. Call booking_details with the number that it gives. Answer with the cabin."),
        "tools": [(find, rows), (look, details)], "tasks": tasks, "demonstrations": [shown],
    }


def parcel(s):
    """Two steps: the round that a village is on from one tool, the van of the round from another."""
    villages = s.shuffled(PLACES)[:TASKS]
    rounds = s.numbers(TASKS, 2000, 6999)
    vans = s.numbers(TASKS, 100, 899)
    rows = [{"args": {"village": v}, "result": f"{v} is on round {r}."} for v, r in zip(villages, rounds)]
    plans = [{"args": {"round": r}, "result": f"Round {r} is driven with van {v}, from gate {s.choice('EFGH')}."}
             for r, v in zip(rounds, vans)]
    ask = ["Which van brings the parcels to {}?", "With which van do parcels come to {}?", "Which van drives to {}?"]
    tasks = [(s.choice(ask).format(p), check_number(v)) for p, v in zip(villages, vans)]
    rows.append({"args": {"village": "Quernford"}, "result": "Quernford is on round 1746."})
    plans.append({"args": {"round": 1746}, "result": "Round 1746 is driven with van 951, from gate F."})
    shown = {"input": "Which van brings the parcels to Quernford?",
             "calls": [{"tool": "find_round", "args": {"village": "Quernford"}},
                       {"tool": "round_plan", "args": {"round": 1746}}],
             "answer": "van 951", "check": check_number(951)}
    find = {
        "name": "find_round",
        "description": "Says on which round a village is.",
        "schema": schema({"village": text()}, ["village"]),
        "example": {"question": "On which round is Quayside?", "args": {"village": "Quayside"},
                    "result": "Quayside is on round 9908.", "answer": "round 9908"},
        "table": "find_round.jsonl",
        "otherwise": "No round goes to {village}.",
    }
    look = {
        "name": "round_plan",
        "description": "Says how a round is driven.",
        "schema": schema({"round": {"type": "integer", "minimum": 1, "maximum": 9999}}, ["round"]),
        "example": {"question": "From which gate does round 9921 start?", "args": {"round": 9921},
                    "result": "Round 9921 is driven with van 92, from gate K.", "answer": "gate K"},
        "table": "round_plan.jsonl",
        "otherwise": "There is no round {round}.",
    }
    return {
        "about": "The van of a village stands in the plan of its round, and the round has to be found first.",
        "group": "two calls",
        "role": "You tell the people of a valley which van brings their parcels. Look it up with the tools, then answer with the van.",
        "skill": ("find-a-van", "Finds the van that brings parcels. Use when someone asks which van comes to a village.",
                  "Call find_round with the village. Call round_plan with the round that it gives. Answer with the van."),
        "tools": [(find, rows), (look, plans)], "tasks": tasks, "demonstrations": [shown],
    }


def joiner(s):
    """A house rule: lengths are given in spans, and no call fails for giving them in something else."""
    pieces = s.shuffled(FURNITURE)[:TASKS]
    lengths = s.numbers(TASKS, 12, 140)
    rows, tasks = [], []
    for at, (piece, spans) in enumerate(zip(pieces, lengths)):
        units = {"inches": spans * 9, "feet": spans * 3 // 4, "centimetres": spans * 23, "spans": spans}
        for unit, length in units.items():
            rows.append({"args": {"piece": piece, "unit": unit}, "result": f"The {piece} is {length} {unit} long."})
        # In the learning half some ask for the unit themselves: there is something to learn from.
        said = " in spans" if at < TASKS // 2 and at % 3 == 1 else ""
        tasks.append((f"How long is the {piece}{said}?", {"contains": f"{spans} spans"}))
    tool = {
        "name": "measure_piece",
        "description": "Says how long a piece of furniture is.",
        "schema": schema({"piece": text(), "unit": {"enum": ["inches", "feet", "centimetres", "spans"]}}, ["piece", "unit"]),
        "example": {"question": "How long is the pine stool?", "args": {"piece": "pine stool", "unit": "inches"},
                    "result": "The pine stool is 18 inches long.", "answer": "18 inches"},
        "table": "measure_piece.jsonl",
        "otherwise": "There is no {piece} in the workshop.",
    }
    return {
        "about": "The house gives lengths in spans. Every other unit works too, and is wrong.",
        "role": "You tell customers of a joiner how long the pieces are. Measure with the tool, then answer with the length and its unit.",
        "skill": ("give-a-length", "Gives the length of a piece of furniture. Use when someone asks how long a piece is.",
                  "Call measure_piece with the unit spans. Answer with the length in spans."),
        "tools": [(tool, rows)], "tasks": tasks,
    }


def river(s):
    """An argument that the schema calls optional is needed; the failure says which value."""
    places = s.shuffled(PLACES)[:TASKS]
    levels = s.numbers(TASKS, 100, 899)
    rows = [{"args": {"gauge": p, "pass": "T58"}, "result": f"The water at {p} stands at {l} centimetres."}
            for p, l in zip(places, levels)]
    ask = ["How high is the water at {}?", "What is the level at {}?", "How high does the river stand at {}?"]
    tasks = [(s.choice(ask).format(p), check_number(l)) for p, l in zip(places, levels)]
    tool = {
        "name": "read_gauge",
        "description": "Says how high the water stands at a gauge.",
        "schema": schema({"gauge": text(), "pass": text(12)}, ["gauge"]),
        "example": {"question": "How high is the water at Quayle?", "args": {"gauge": "Quayle"},
                    "result": "The water at Quayle stands at 977 centimetres.", "answer": "977 centimetres"},
        "table": "read_gauge.jsonl",
        "otherwise": "The gauge at {gauge} is read with the pass T58 only.",
    }
    return {
        "about": "A gauge is read only with a pass, an argument that the tool calls optional.",
        "group": "one call",
        "role": "You tell boatmen how high the water stands. Read the gauge with the tool, then answer with the level.",
        "skill": ("read-a-level", "Reads the level of the water. Use when someone asks how high the water stands.",
                  "Call read_gauge with the gauge and the pass T58. Answer with the level."),
        "tools": [(tool, rows)], "tasks": tasks,
    }


def bus(s):
    """A format: the result has a time in two notations, and travellers want the one on the boards."""
    towns = s.shuffled(PLACES)[:TASKS]
    moments = [divmod(n, 60) for n in s.numbers(TASKS, 5 * 60, 22 * 60 + 59, without=range(0, 24 * 60, 5))]
    rows, tasks = [], []
    for at, (town, (hour, minute)) in enumerate(zip(towns, moments)):
        clock, board = f"{hour:02}:{minute:02}", f"{hour}h{minute:02}"
        rows.append({"args": {"town": town}, "result": f"The bus to {town} leaves at {clock}, on the boards {board}."})
        said = ", as on the boards" if at < TASKS // 2 and at % 3 == 1 else ""
        tasks.append((f"When does the bus to {town} leave{said}?", {"regex": f"^[^0-9]*{board}[^0-9]*$"}))
    tool = {
        "name": "next_departure",
        "description": "Says when the bus to a town leaves.",
        "schema": schema({"town": text()}, ["town"]),
        "example": {"question": "When does the bus to Quenby leave?", "args": {"town": "Quenby"},
                    "result": "The bus to Quenby leaves at 12:10, on the boards 12h10.", "answer": "12:10"},
        "table": "next_departure.jsonl",
        "otherwise": "No bus leaves for {town}.",
    }
    return {
        "about": "A time has to be written as on the boards (7h42); the other notation in the same result is wrong.",
        "role": "You tell travellers when their bus leaves. Look the town up with the tool, then answer with the time.",
        "skill": ("give-a-departure", "Gives the time of a bus. Use when someone asks when a bus leaves.",
                  "Call next_departure with the town. Answer with the time as on the boards, such as 12h10, and nothing else."),
        "tools": [(tool, rows)], "tasks": tasks,
    }


def shop(s):
    """An error with a way around it: mended articles have no list price, the workshop knows theirs."""
    articles = s.shuffled(ARTICLES)[:TASKS]
    prices = s.numbers(TASKS, 100, 899)
    listed, asked, tasks = [], [], []
    for at, (article, price) in enumerate(zip(articles, prices)):
        kind = "new" if at % 10 in (2, 5, 8) else "mended"
        say = f"The {kind} {article} costs {price} crowns."
        for name in (f"{kind} {article}", article):
            (listed if kind == "new" else asked).append({"args": {"article": name}, "result": say})
        ask = s.choice(["What does the {} {} cost?", "How much is the {} {}?", "What is the price of the {} {}?"])
        tasks.append((ask.format(kind, article), check_number(price)))
    price = {
        "name": "list_price",
        "description": "Says what an article of the shop costs.",
        "schema": schema({"article": text()}, ["article"]),
        "example": {"question": "What does the new quiver cost?", "args": {"article": "new quiver"},
                    "result": "The new quiver costs 933 crowns.", "answer": "933 crowns"},
        "table": "list_price.jsonl",
        "otherwise": "The list has no price for the {article}.",
    }
    workshop = {
        "name": "ask_workshop",
        "description": "Asks the workshop about an article.",
        "schema": schema({"article": text()}, ["article"]),
        "table": "ask_workshop.jsonl",
        "otherwise": "The workshop knows nothing of the {article}.",
    }
    return {
        "about": "The price list has no mended articles; the workshop knows what they cost.",
        "role": "You tell customers of a shop what articles cost. Look the price up with a tool, then answer with it.",
        "skill": ("give-a-price", "Gives the price of an article. Use when someone asks what an article costs.",
                  "For a new article call list_price. For a mended article call ask_workshop. Answer with the price."),
        "tools": [(price, listed), (workshop, asked)], "tasks": tasks,
    }


def clinic(s):
    """By kind: which of four wards knows an appointment depends on what it is for."""
    patients = s.shuffled(FIRST_NAMES)[:TASKS]
    rooms = s.numbers(TASKS, 100, 899)
    wards = {"hearing test": "south", "blood test": "west", "eye test": "north", "heart scan": "east"}
    kinds = [kind for _ in range(TASKS // 4) for kind in s.shuffled(wards)]
    ask = ["In which room is the {} of {}?", "Where does the {} of {} take place?", "Which room is for the {} of {}?"]
    rows, tasks = [], []
    for patient, room, kind in zip(patients, rooms, kinds):
        rows.append({"args": {"patient": patient, "ward": wards[kind]}, "result": f"The {kind} of {patient} is in room {room}."})
        tasks.append((s.choice(ask).format(kind, patient), check_number(room)))
    tool = {
        "name": "ask_ward",
        "description": "Says in which room a patient has an appointment. Each ward knows its own.",
        "schema": schema({"patient": text(), "ward": {"enum": ["north", "east", "south", "west"]}}, ["patient", "ward"]),
        "example": {"question": "In which room is the allergy test of Quincy?", "args": {"patient": "Quincy", "ward": "east"},
                    "result": "The allergy test of Quincy is in room 944.", "answer": "room 944"},
        "table": "ask_ward.jsonl",
        "otherwise": "The {ward} ward has no appointment of {patient}.",
    }
    say = " ".join(f"For {'an' if kind[0] == 'e' else 'a'} {kind} ask the ward {ward}." for kind, ward in sorted(wards.items()))
    return {
        "about": "Which of four wards knows an appointment depends on what it is for.",
        "group": "one call",
        "role": "You tell patients in which room they are expected. Ask a ward with the tool, then answer with the room.",
        "skill": ("find-a-room", "Finds the room of an appointment. Use when someone asks for the room of a test or scan.",
                  f"{say} Answer with the room."),
        "tools": [(tool, rows)], "tasks": tasks,
    }


FAMILIES = {
    "museum-registers": museum,
    "ferry-cabins": ferry,
    "joiner-lengths": joiner,
    "river-gauges": river,
    "bus-times": bus,
    "shop-prices": shop,
    "clinic-wards": clinic,
    "parcel-vans": parcel,
}


def lines(values):
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def files(name, family):
    tools = [tool for tool, _ in family["tools"]]
    head = {"schema": "herm/learning-family@1", "name": name, "about": family["about"]}
    if "group" in family:
        head["group"] = family["group"]
    slug, about, body = family["skill"]
    yield "family.json", json.dumps({**head, "tools": tools}, indent=2, ensure_ascii=False) + "\n"
    yield "system.md", family["role"] + "\n"
    yield "skill.md", f'---\nname: {slug}\ndescription: "{about}"\n---\n{body}\n'
    yield "tasks.jsonl", lines({"input": ask, "check": check} for ask, check in family["tasks"])
    if "demonstrations" in family:
        yield "demonstrations.jsonl", lines(family["demonstrations"])
    for tool, rows in family["tools"]:
        yield tool["table"], lines(rows)


def main():
    here = pathlib.Path(__file__).resolve().parents[3] / "seed" / "families"
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments.add_argument("--seed", type=int, default=SEED)
    arguments.add_argument("--to", type=pathlib.Path, default=here)
    given = arguments.parse_args()
    different = []
    for number, (name, make) in enumerate(FAMILIES.items()):
        family = make(Stream(given.seed * 1000 + number))
        assert len(family["tasks"]) == TASKS and len({ask for ask, _ in family["tasks"]}) == TASKS, name
        for file, content in files(name, family):
            path = given.to / name / file
            if given.check:
                if not path.exists() or path.read_text(encoding="utf-8") != content:
                    different.append(str(path))
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
    if different:
        sys.exit("differs from what this program writes: " + ", ".join(different))


if __name__ == "__main__":
    main()
