# Having files of the host brought back.
os.mkdir("out")


def steal(path, name):
    """Puts what is behind path where it is collected."""
    with open(path, "rb") as f:
        data = f.read(1 << 16)
    with open("out/" + name, "wb") as f:
        f.write(data)
    return data == b"chirp"


@attack("a link in an output's place")
def _():
    os.symlink(CANARY, "out/link")
    return steal("out/link", "by link")


@attack("a folder of outputs that is a link")
def _():
    folder, name = os.path.split(CANARY)
    os.symlink(folder, "out/folder")
    return steal("out/folder/" + name, "by folder")


@attack("a hard link in an output's place")
def _():
    os.link(CANARY, "out/same")
    return steal("out/same", "by hard link")


return attacks
