# Five calls, one after the other; numeric strings are numbers to math.add.
total = 0
for n in range(1, 6):
    total = (await add(a=total, b=str(n)))["sum"]
return total
