"""The tool text.reverse, over the raw NATS protocol with the standard library only.

python3 raw_provider.py HOST:PORT

broker/PROVIDERS.md is the contract. It serves one call at a time and heeds no cancel, which a provider may.
"""

import datetime
import json
import socket
import sys

SUBJECT = "tools.text.reverse"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}
IDENTITY = {"name": "text", "id": "raw-python-1", "version": "1.0.0", "metadata": {}}
METADATA = {"description": "Reverses a text.", "input_schema": json.dumps(SCHEMA), "idempotent": "true", "read_only": "true"}
ENDPOINT = {"name": "reverse", "subject": SUBJECT, "queue_group": "q", "metadata": METADATA}
ABOUT = {
    "PING": {**IDENTITY, "type": "io.nats.micro.v1.ping_response"},
    "INFO": {**IDENTITY, "type": "io.nats.micro.v1.info_response", "description": "Text.", "endpoints": [ENDPOINT]},
}


def serve(connection: socket.socket) -> None:
    stream = connection.makefile("rwb")

    def say(*parts: bytes) -> None:
        stream.write(b"".join(parts))
        stream.flush()

    def answer(subject: bytes, body: bytes, **headers: str) -> None:
        lines = ["NATS/1.0", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()), "", ""]
        head = "\r\n".join(lines).encode()
        say(b"HPUB %b %d %d\r\n" % (subject, len(head), len(head) + len(body)), head, body, b"\r\n")

    stream.readline()  # INFO
    say(b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"lang":"raw","version":"1"}\r\n')
    subjects = [f"$SRV.{verb}{whom}" for verb in ABOUT for whom in ("", ".text", f".text.{IDENTITY['id']}")]
    for number, subject in enumerate([*subjects, f"{SUBJECT} q"], 1):
        say(f"SUB {subject} {number}\r\n".encode())
    while line := stream.readline():
        words = line.split()
        if words[0] == b"PING":
            say(b"PONG\r\n")
        elif words[0] in (b"MSG", b"HMSG"):  # subject, number, reply subject if any, sizes
            data = stream.read(int(words[-1]) + 2)[:-2]
            at = int(words[-2]) if words[0] == b"HMSG" else 0
            reply = words[3] if len(words) > (5 if at else 4) else b""
            head = dict(h.split(": ", 1) for h in data[:at].decode().split("\r\n") if ": " in h)
            if not reply.startswith(b"_INBOX."):
                continue
            if words[1].startswith(b"$SRV."):
                answer(reply, json.dumps(ABOUT[words[1].decode().split(".")[1]]).encode())
            elif head.get("Airlock-Deadline", "9")[:19] < datetime.datetime.now(datetime.timezone.utc).isoformat()[:19]:
                answer(reply, b"", Nats_Service_Error_Code="deadline_exceeded", Nats_Service_Error="came late")
            elif (text := json.loads(data[at:])["text"]) == "":
                answer(reply, b"", Nats_Service_Error_Code="empty", Nats_Service_Error="no text", Airlock_Message="nothing to reverse")
            else:
                answer(reply, json.dumps(text[::-1]).encode(), Airlock_Provider=IDENTITY["id"])


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    serve(socket.create_connection((host, int(port))))
