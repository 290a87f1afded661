"""A warm interpreter that guests are forked from.

    template   imports what guests may need, once, and forks slots
    slot       one place where guests run, one after another: forks each and reports its end
    confine    turns a fork of a slot into a guest, before anything of a job is near it
    fresh      gives that guest the state of an interpreter that has just been started
    kernel     the system calls that Python lacks
    rehearsal  runs jobs in the template, so that guests find done what the first of them would do
    text       the interpreter's program on huge pages, which forks inherit whole
    room       the template's memory without holes, so that forks take pages side by side
    control    what is said between the worker, the template and its slots

Unlike the rest of this package these modules are trusted: they run before a guest is one, none of them ever holds a
byte of a job, and what they set up is looked at from outside before the guest is told its job. Nothing of them can be
reached from a guest's code by name, and the system-call filter makes what can be reached useless.
"""
