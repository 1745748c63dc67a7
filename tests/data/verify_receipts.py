"""Checks an exported receipt tape with nothing of herm: python3 verify_receipts.py FILE did:key:z6Mk…

Written from docs/reference/receipt.md. Needs the standard library and the package `cryptography`."""
import base64, hashlib, json, sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def public_key(did):
    number = 0
    for letter in did.removeprefix("did:key:z"):
        number = number * 58 + ALPHABET.index(letter)
    raw = number.to_bytes(34, "big")
    assert raw[:2] == b"\xed\x01", "not an Ed25519 key"
    return Ed25519PublicKey.from_public_bytes(raw[2:])


def statement(line, key, did):
    envelope = json.loads(line)
    payload = base64.b64decode(envelope["payload"], validate=True)
    kind = envelope["payloadType"].encode()
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    (signature,) = [s for s in envelope["signatures"] if s["keyid"] == did]
    key.verify(base64.b64decode(signature["sig"]), signed)
    found = json.loads(payload)
    assert found["_type"] == "https://in-toto.io/Statement/v1", "not an in-toto statement"
    return found, hashlib.sha256(payload).hexdigest()


def subject(found, name):
    return next((list(s["digest"].values())[0] for s in found["subject"] if s["name"] == name), None)


def check(path, did):
    key, last, after, seq, version, brain, closed = public_key(did), None, None, 0, 0, None, False
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if not line.strip():
            continue
        found, digest = statement(line, key, did)
        predicate = found["predicate"]
        assert not closed, f"line {number} stands after the checkpoint"
        if found["predicateType"] == "urn:herm:checkpoint:1":
            assert (predicate["seq"], subject(found, "receipt/last")) == (seq, last), "the log was cut"
            closed = True
            continue
        assert found["predicateType"] == "urn:herm:receipt:1", f"line {number} is no receipt"
        assert predicate["seq"] == seq + 1, f"line {number} has number {predicate['seq']}"
        assert (predicate["previous"] or {}).get("sha256") == last, f"line {number} does not follow"
        assert subject(found, "bundle/before") == after, f"line {number} begins elsewhere"
        assert predicate["version"] > version and brain in (None, predicate["brain"]), f"line {number}"
        seq, version, brain, last, after = seq + 1, predicate["version"], predicate["brain"], digest, subject(found, "bundle/after")
    assert seq > 0, "no receipts"
    print(f"sound: brain {brain}, {seq} receipts, version {version}, bundle {after}, checkpoint {'yes' if closed else 'no'}")


try:
    check(sys.argv[1], sys.argv[2])
except (AssertionError, InvalidSignature, ValueError, KeyError) as wrong:
    sys.exit(f"not sound: {wrong or type(wrong).__name__}")
