"""The tools of a namespace weather, with nats-py (pip install nats-py): python3 nats_provider.py nats://HOST:PORT

broker/PROVIDERS.md is the contract.
"""

import asyncio
import json
import signal
import sys

import nats
from nats import micro

NAMESPACE = "weather"
DEGREES = {"Bern": 11.5, "Oslo": 6.25}
RUNNING: "dict[str, asyncio.Task]" = {}  # by the call's id


async def forecast(call: dict, place: str) -> dict:
    """Degrees expected in a place tomorrow."""
    if place not in DEGREES:
        raise KeyError("not_found", f"no forecast for {place!r}")  # the guest is told both
    return {"place": place, "degrees": DEGREES[place], "for": call["Airlock-Tenant"]}


SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string", "description": "a city"}},
    "required": ["place"],
    "additionalProperties": False,
}


async def handle(request: "micro.Request") -> None:
    call = request.headers or {}
    task = asyncio.ensure_future(forecast(call, **json.loads(request.data)))
    RUNNING[call.get("Airlock-Call", "")] = task
    try:
        await request.respond(json.dumps(await task, allow_nan=False).encode())
    except KeyError as error:
        code, message = error.args
        await request.respond_error(code, message, headers={"Airlock-Message": message})
    except asyncio.CancelledError:
        await request.respond_error("cancelled", "the worker gave the call up")
    except Exception as error:  # what went wrong is for operators only
        await request.respond_error("internal", type(error).__name__)
    finally:
        RUNNING.pop(call.get("Airlock-Call", ""), None)


async def cancel(message: "nats.aio.msg.Msg") -> None:
    task = RUNNING.get((message.headers or {}).get("Airlock-Call", ""))
    if task:
        task.cancel()


async def main(url: str) -> None:
    done = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, done.set)
    connection = await nats.connect(url)
    await connection.subscribe(f"toolcancel.{NAMESPACE}", cb=cancel)
    service = await micro.add_service(connection, name=NAMESPACE, version="1.0.0", description="Weather.")
    await service.add_endpoint(
        name="forecast",
        subject=f"tools.{NAMESPACE}.forecast",
        handler=handle,
        metadata={
            "description": forecast.__doc__ or "",
            "input_schema": json.dumps(SCHEMA),
            "idempotent": "true",
            "read_only": "true",
        },
    )
    await done.wait()
    await service.stop()
    await connection.drain()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
