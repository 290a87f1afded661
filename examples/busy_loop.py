print("spinning", flush=True)
while True:
    pass
