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
