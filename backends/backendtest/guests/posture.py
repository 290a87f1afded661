# What the guest is, as it sees itself and as the host sees it.
mark()
attacks["root inside"] = "got through" if 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid()) else "no effect"
attacks.update(await posture())
return attacks
