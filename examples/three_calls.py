# Three calls in parallel.
import asyncio

answers = await asyncio.gather(add(a=1, b=2), add(a=2**60, b=1), echo(text="☕"))
answers
