def divide(a, b):
    # The next line is line 3, and the traceback says so.
    return a / b

divide(1, 0)
