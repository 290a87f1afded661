"""Turns a fork of a slot into a guest: the last thing that trusted code does in it."""

import os
import resource

from . import kernel

CHANNEL = 3


def confine(order: dict, descriptors: "list[int]", program: kernel.Filter) -> None:
    """Leaves this process with a guest's descriptors, file systems, limits, user and rights, and with nothing else.

    Whatever cannot be done raises: a guest that lacks a wall must not go on.
    """
    for number, descriptor in enumerate(descriptors):
        # The channel is not inherited, which whoever made the object for it ahead could not see to.
        os.dup2(descriptor, number, number != CHANNEL)
    kernel.close_from(CHANNEL + 1)
    kernel.unshare(kernel.NEWNS)
    for path in order["writable"]:
        kernel.mount_tmpfs(path, order["options"])
    os.setsid()
    for kind, soft, hard in order["bounds"]:
        resource.setrlimit(kind, (soft, hard))
    user = order.get("user")
    if user is not None:
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    os.chdir("/workspace")  # as its owner: nobody else may enter
    kernel.drop_capabilities()
    kernel.undumpable()
    kernel.die_with_parent()
    program.install()
