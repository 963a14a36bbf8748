"""Clients of the servers in projects.py. A client waits until its server listens, talks to it and asks it to
stop, if the server knows such a request."""
import os
import socket
import subprocess
import sys
import threading
import time


def start(kind, folder):
    return subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), kind], cwd=folder, start_new_session=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def talk(port, lines):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as server:
        for line in lines:
            server.sendall(line.encode())
            if not server.recv(65536):
                return


def memcached(number):
    lines = []
    for turn in range(100):
        lines += [f"set k{i} 0 0 1\r\n{i % 10}\r\n" for i in range(20)]
        lines += [f"get k{i}\r\n" for i in range(20)]
        lines += ["incr k1 5\r\n", "decr k1 2\r\n", "delete k3\r\n", "stats\r\n"]
    return lines


def redis(number):
    lines = []
    for turn in range(100):
        lines += [f"SET k{i} {i}\r\n" for i in range(20)] + [f"GET k{i}\r\n" for i in range(20)]
    return lines + ["INCR k1\r\n", f"LPUSH list {number}\r\n", "LRANGE list 0 -1\r\n", "DEL k3\r\n"]


def http(number):
    return ["GET /README.md HTTP/1.0\r\n\r\n" if number % 2 else "GET / HTTP/1.0\r\n\r\n"]


KINDS = {"memcached": (21311, memcached, "shutdown\r\n"), "redis": (21312, redis, "SHUTDOWN NOSAVE\r\n"),
         "civetweb": (21313, http, None)}


def command(kind):
    """The words of a shell that talk to the server."""
    return f"{sys.executable} -B {os.path.abspath(__file__)} {kind}"


def main():
    port, lines, stop = KINDS[sys.argv[1]]
    while True:
        try:
            threads = [threading.Thread(target=attempt, args=(port, lines(n))) for n in range(4)]
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if stop:
                attempt(port, [stop])
            return
        except OSError:
            pass
        time.sleep(0.1)


def attempt(port, lines):
    try:
        talk(port, lines)
    except OSError:
        pass


if __name__ == "__main__":
    main()
