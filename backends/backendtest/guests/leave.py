# Leaves something wherever the next guest might look.
for place in ("/tmp", "/dev/shm", "/workspace", "/var/tmp"):
    try:
        with open(f"{place}/{TOKEN}", "w") as f:
            f.write("left")
    except OSError:
        pass
return 1
