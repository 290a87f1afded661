"""The Python that runs inside every sandbox.

It shares its interpreter with code nobody trusts and so guards nothing: what is said on the channel is checked by
the worker. broker/PROTOCOL.md is the contract of that channel, and its names are the names here.

    run        the order of things: hello, job, code, end, result
    wire       frames and strict JSON
    calls      requests and their replies, from threads, event loops and neither
    tools      what the user's code sees of the tools
    signature  the signature of a tool, made when somebody looks
    revive     answers as Python values, where JSON has no word for them
    code       from source to a code object: top-level await and return, the last expression
    values     Python values as JSON
    report     exceptions as JSON
    workspace  the job's files, environment, arguments and module
    artifacts  the files that come back
    streams    stdin, stdout and stderr
    system     the few system calls, without the price of importing os

A cold interpreter is most of a short job's time, so what a job may not need is imported where it is needed: importing
os costs 1 ms, json 6, traceback 8 and asyncio 40, where the bare interpreter takes 7.
"""
