# Reaching the host's sockets, by every way that there is.
import socket


def answered(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(5)
        s.connect(tuple(address) if isinstance(address, list) else address)
        if kind == socket.SOCK_DGRAM:
            s.send(b"?")
        return s.recv(5) == b"chirp"


@attack("tcp4")
def _(): return answered(socket.AF_INET, socket.SOCK_STREAM, tcp4)


@attack("tcp6")
def _(): return answered(socket.AF_INET6, socket.SOCK_STREAM, tcp6)


@attack("udp")
def _(): return answered(socket.AF_INET, socket.SOCK_DGRAM, udp)


@attack("unix")
def _(): return answered(socket.AF_UNIX, socket.SOCK_STREAM, unix)


@attack("abstract")
def _(): return answered(socket.AF_UNIX, socket.SOCK_STREAM, abstract)


@attack("public address", harmful=True)
def _(): return socket.create_connection(("192.0.2.1", 80), 5)


@attack("public address of IPv6", harmful=True)
def _(): return socket.create_connection(("2001:db8::1", 80), 5)


@attack("metadata of clouds", harmful=True)
def _():
    for address in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "metadata.google.internal"):
        try:
            return socket.create_connection((address, 80), 2)
        except OSError as e:
            last = e
    raise last


@attack("the host's addresses")
def _():
    last = OSError("the host has none")
    for address in HOSTS:
        try:
            return answered(socket.AF_INET, socket.SOCK_STREAM, [address, WIDE])
        except OSError as e:
            last = e
    raise last


@attack("ports of services")
def _():
    last = OSError("nothing to try")
    for address in ["127.0.0.1"] + HOSTS:
        for port in (2375, 2376, 4222, 5432, 6222, 8222):
            try:
                return socket.create_connection((address, port), 2)
            except OSError as e:
                last = e
    raise last


@attack("multipath TCP")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as s:
        s.settimeout(5)
        s.connect(tuple(tcp4))
        return s.recv(5) == b"chirp"


@attack("ICMP")
def _(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)


@attack("tables of sockets")
def _():
    with open("/proc/net/unix") as f:
        if unix in f.read():
            return True
    with open("/proc/net/tcp") as f:
        return f":{tcp4[1]:04X} " in f.read()


@attack("interfaces")
def _():
    import fcntl, struct
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        return fcntl.ioctl(s, 0x8914, struct.pack("16sh22x", b"lo", 0x49))


@attack("tunnels")
def _(): return os.open("/dev/net/tun", os.O_RDWR)


@attack("keys, RxRPC, xfrm")
def _():
    last = OSError("nothing to try")
    for family, kind, protocol in ((15, socket.SOCK_RAW, 2), (33, socket.SOCK_DGRAM, 2), (16, socket.SOCK_RAW, 6)):
        try:
            return socket.socket(family, kind, protocol)
        except OSError as e:
            last = e
    raise last


@attack("raw socket")
def _(): return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)


@attack("packet socket")
def _(): return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)


@attack("netlink")
def _(): return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)


@attack("kernel crypto socket")
def _(): return socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0)


@attack("vsock")
def _(): return socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM, 0)


return attacks
