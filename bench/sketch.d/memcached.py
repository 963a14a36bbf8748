"""A client of memcached that increments one counter through two connections at the same time, and says when an
increment is lost. In 1.4.4 that happens where the number gets longer: it is then written to a new item, while
the other worker may still hold the old one."""
import os
import socket

ROUNDS = 12


def ask(server, text):
    server.sendall(text.encode())
    return server.recv(4096).decode()


def main():
    port = int(os.environ["NORNS_PORT"])
    servers = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(2)]
    for number in range(1, ROUNDS + 1):
        key, begin = f"k{number}", 10 ** number - 1
        ask(servers[0], f"set {key} 0 0 {len(str(begin))}\r\n{begin}\r\n")
        for server in servers:
            server.sendall(f"incr {key} 1\r\n".encode())
        for server in servers:
            server.recv(4096)
        value = int(ask(servers[0], f"get {key}\r\n").split("\r\n")[1])
        if value != begin + 2:
            print("lost update", flush=True)


if __name__ == "__main__":
    main()
