print("x" * 199_999)
