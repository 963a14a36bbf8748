"""The projects of bench/real: where each comes from, how its users build it, and a typical run.

A project with a package and a repository comes from the repository's checkout if Debian's package cannot be
fetched. A build is a shell text, run in a copy of the sources with CC and CXX set. HERE is this folder. A run
starts in the folder of the build, where `input-N.txt` holds N megabytes of text. Where the project
allows it, a run takes more than a second under ThreadSanitizer.
"""
from dataclasses import dataclass, field


@dataclass
class Project:
    name: str
    build: str
    run: list
    package: str = ""
    repository: str = ""
    folder: str = ""
    client: str = ""
    megabytes: int = 1
    build_name: str = field(init=False)

    def __post_init__(self):
        # Projects of one source with the same build share it.
        self.build_name = self.name.split("/")[0]


ZSTD = "make -C programs zstd CC=$CC -j2; make -C tests poolTests CC=$CC"
NNG = """mkdir -p out; cd out; cmake .. -DCMAKE_C_COMPILER=$CC -DNNG_TESTS=ON -DNNG_TOOLS=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo
make -j2 nng nng_testing 2>/dev/null || make -j2 nng; make -j2 pair0_test synch"""
ZMQ = """mkdir -p out; cd out; cmake .. -DCMAKE_C_COMPILER=$CC -DCMAKE_CXX_COMPILER=$CXX -DBUILD_TESTS=ON -DWITH_PERF_TOOL=OFF \
  -DBUILD_STATIC=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo
make -j2 libzmq testutil unity; make -j2 test_pair_inproc test_pair_tcp"""
POOL = """$CC -g -O1 -pthread -I. tests/src/api.c thpool.c -o api
$CC -g -O1 -pthread -I. tests/src/no_work.c thpool.c -o no_work
$CC -g -O1 -pthread -I. example.c thpool.c -o example"""

ALL = [
    Project("pbzip2-0.9.4", """cd bzip2-1.0.6; make libbz2.a; cd ../pbzip2-0.9.4; make CC="$CXX" """,
            ["pbzip2-0.9.4/pbzip2", "-k", "-f", "-p3", "-b1", "input-2.txt"], megabytes=2,
            repository="mc-imperial+sctbench", folder="benchmarks/conc-bugs/pbzip2-0.9.4"),
    # clang takes a string literal before PRIuMAX for a literal of C++11.
    Project("pbzip2", """make pbzip2 CC="$CC" CXX="$CXX -std=gnu++98" """, ["./pbzip2", "-k", "-f", "-p3", "-b1", "input-40.txt"],
            megabytes=40, package="pbzip2"),
    Project("thpool/api", POOL, ["./api"], repository="Pithikos+C-Thread-Pool"),
    Project("thpool/no_work", POOL, ["./no_work", "4"], repository="Pithikos+C-Thread-Pool"),
    Project("thpool/example", POOL, ["./example"], repository="Pithikos+C-Thread-Pool"),
    Project("zstd/compress", ZSTD, ["programs/zstd", "-q", "-f", "-T3", "-B512K", "-1", "input-24.txt"],
            megabytes=24, package="libzstd"),
    Project("zstd/poolTests", ZSTD, ["tests/poolTests"], package="libzstd"),
    Project("pigz", "make CC=$CC", ["./pigz", "-p3", "-k", "-f", "input-12.txt"], megabytes=12, package="pigz",
            repository="madler+pigz"),
    Project("xz", "./configure --disable-shared --disable-nls --disable-doc CC=$CC; make -j2",
            ["src/xz/xz", "-T3", "-0", "--block-size=400000", "-k", "-f", "input-6.txt"],
            megabytes=6, package="xz-utils"),
    Project("nng/pair0", NNG, ["sh", "-c", "exec $(find out -name pair0_test -type f) --no-exec"], package="nng"),
    Project("nng/synch", NNG, ["sh", "-c", "exec $(find out -name synch -type f)"], package="nng"),
    Project("libzmq/inproc", ZMQ, ["out/bin/test_pair_inproc"], package="zeromq3"),
    Project("libzmq/tcp", ZMQ, ["out/bin/test_pair_tcp"], package="zeromq3"),
    Project("memcached", "./configure --disable-docs CC=$CC; make -j2 memcached",
            ["./memcached", "-u", "root", "-l", "127.0.0.1", "-p", "21311", "-U", "0", "-t", "4", "-A"], package="memcached", client="memcached"),
    Project("redis", "make -j2 redis-server CC=$CC CXX=$CXX MALLOC=libc USE_SYSTEMD=no OPTIMIZATION=-O1",
            ["src/redis-server", "--port", "21312", "--bind", "127.0.0.1", "--io-threads", "3", "--save", ""], package="redis", client="redis"),
    Project("civetweb", "$CC -g -O1 -Iinclude -DNO_SSL -DNO_CGI -DNDEBUG src/civetweb.c src/main.c -o server -pthread -ldl -lrt",
            ["./server", "-listening_ports", "127.0.0.1:21313", "-document_root", ".", "-num_threads", "4"], package="civetweb",
            client="civetweb"),
    Project("leveldb", """mkdir -p out; cd out; cmake .. -DCMAKE_C_COMPILER=$CC -DCMAKE_CXX_COMPILER=$CXX -DLEVELDB_BUILD_TESTS=OFF \
  -DLEVELDB_BUILD_BENCHMARKS=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo
make -j2 leveldb; $CXX -g -O1 -std=c++17 -I../include $HERE/leveldb_threads.cc -o threads libleveldb.a -pthread $(grep -q snappy CMakeCache.txt && ls /usr/lib/*/libsnappy.so || true)""",
            ["out/threads"], package="leveldb"),
    Project("httplib", "$CXX -g -O1 -std=c++11 -I. $HERE/httplib_clients.cc -o clients -pthread", ["./clients"], package="cpp-httplib"),
    Project("libuv", """mkdir -p out; cd out; cmake .. -DCMAKE_C_COMPILER=$CC -DCMAKE_BUILD_TYPE=RelWithDebInfo; make -j2 uv_run_tests_a""",
            ["env", "UV_RUN_AS_ROOT=1", "out/uv_run_tests_a", "threadpool_queue_work_simple", "threadpool_queue_work_simple"], package="libuv1"),
]
