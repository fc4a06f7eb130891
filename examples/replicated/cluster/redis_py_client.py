#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Sends commands with redis-py's client of Redis Cluster, for libraries_test.go.

usage: redis_py_client.py PASSWORD HOST:PORT...

Each line of the standard input is a command, a JSON list of words. The answer is a line
with a JSON object: `attempts` has one entry for each time that the library has sent the
command, and `error` says why the library's call failed, empty if it did not. The
library keeps its own retries, which a program would also have. It repeats a command
after an unknown outcome, so the caller needs to know of each attempt:

  begin    nanoseconds from the receipt of the line to just before the attempt
  error    the server's error, the library's, or empty
  refused  whether the error is an answer of the server
  answer   of the server, if there is no error
"""

import json
import logging
import sys
import time

import redis.cluster
import redis.connection

COMMANDS = ("GET", "SET", "DEL")
TIMEOUT_SECONDS = 5

attempts = []
received = 0


class Parser(redis.cluster.ClusterParser):
    """Keeps the whole text of an error, from which the library removes the code."""

    def parse_error(self, response):
        error = super().parse_error(response)
        error.reply = response
        return error


def describe(error):
    reply = getattr(error, "reply", None)
    return reply if reply is not None else f"{type(error).__name__}: {error}"


class Connection(redis.connection.Connection):
    """Records each command that is sent, and how it was answered."""

    attempt = None

    def send_command(self, *words, **options):
        if words[0] in COMMANDS:
            self.attempt = {"begin": time.monotonic_ns() - received, "error": "no answer"}
            attempts.append(self.attempt)
        super().send_command(*words, **options)

    def read_response(self, *arguments, **options):
        attempt, self.attempt = self.attempt, None
        try:
            answer = super().read_response(*arguments, **options)
        except Exception as error:
            if attempt is not None:
                attempt.update(error=describe(error), refused=hasattr(error, "reply"))
            raise
        if attempt is not None:
            attempt.update(error="", answer=answer)
        return answer


class Pool(redis.connection.ConnectionPool):
    """Takes back connections to its own node only. If a node to which a command was
    moved cannot be reached, version 4.3.4 returns the connection to the former node to
    the pool of the new one. Commands for the new one would then be sent to the former,
    which always answers MOVED."""

    def owns_connection(self, connection):
        own = self.connection_kwargs
        return (super().owns_connection(connection) and connection.host == own["host"] and
                connection.port == int(own["port"]))


class Cluster(redis.cluster.RedisCluster):
    """Is itself where the library copies it with the settings of a connection. The copy
    of version 4.3.4 fails, because locks have none, and this library could never again
    learn of nodes after it has given one up."""

    def __deepcopy__(self, memo):
        return self


def main():
    global received
    password, *addresses = sys.argv[1:]
    logging.disable()
    redis.cluster.ClusterParser = Parser
    redis.cluster.ConnectionPool = Pool
    cluster = None
    for line in sys.stdin:
        received = time.monotonic_ns()
        attempts.clear()
        error = ""
        try:
            if cluster is None:
                nodes = [redis.cluster.ClusterNode(host, int(port)) for host, _, port in
                         (address.rpartition(":") for address in addresses)]
                # Only with an address of this form can the class of connections be given.
                cluster = Cluster.from_url(
                    f"redis://{addresses[0]}", startup_nodes=nodes, connection_class=Connection,
                    password=password or None, decode_responses=True, socket_timeout=TIMEOUT_SECONDS)
            cluster.execute_command(*json.loads(line))
        except Exception as failure:  # The library's own mistakes are counted too.
            error = describe(failure)
        print(json.dumps({"attempts": attempts, "error": error}), flush=True)


if __name__ == "__main__":
    main()
