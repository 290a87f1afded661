# Looks for what an earlier guest left.
for place in ("/tmp", "/dev/shm", "/workspace", "/var/tmp"):

    @attack(place)
    def _(): return os.path.exists(f"{place}/{TOKEN}")


return attacks
