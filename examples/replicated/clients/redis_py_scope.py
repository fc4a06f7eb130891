# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Says which tests of redis-py's own suite are out of scope, and why.

A plugin for pytest: `-p redis_py_scope`, with VARVE_SHARDS in the environment.
A test that matches a pattern is skipped with its reason. All others must pass.
At the end the numbers are printed by reason.
"""

import collections
import os
import re

import pytest

# The first pattern that matches the whole name of a test function counts.
OUT_OF_SCOPE = [
    ("values other than strings",
     r"test_(bl|br|l|r)(index|insert|len|mpop|move|pop|pop_count|poplpush.*|push|pushx.*|range|rem|set|trim|pos)"
     r"|test_s(add|card|diff|inter|ismember|members|mismember|move|pop|rand|rem|union|scan|ort_).*"
     r"|test_h(get|set|del|exists|incr|keys|len|mget|mset|vals|strlen|rand|scan).*"
     r"|test_(z|bz|x|pf|geo).*|test_scan_type|test_type"
     r"|test_command_on_invalid_key_type|test_binary_lists|test_list_encoding|test_floating_point_encoding"
     r"|test_object|test_pipeline"),
    ("bits", r"test_bit.*|test_get_set_bit|test_pipeline_with_bitfield"),
    ("commands on two keys, which may be in different shards, or on a random key",
     r"test_rename.*|test_copy.*|test_lcs|test_stralgo.*|test_randomkey"),
    ("copies of single values between servers", r"test_(dump_and_)?restore.*|test_migrate.*"),
    ("scripts, functions and modules", r"test_tf.*|test_module.*|test_script.*|test_eval.*|test_function.*|test_fcall.*"),
    ("messages, blocking and MONITOR", r".*pubsub.*|test_client_unblock|test_wait.*|test_monitor.*"
     r"|test_watch_(exec_no|reset)_unwatch"),
    ("Redis's own users: these are in a file", r"test_acl_(?!whoami).*|test_auth"
     r"|test_client_kill_filter_by_user"),
    ("settings at run time: these are options of the program", r"test_config_set.*|test_config_get_multi_params"),
    ("one database only", r"test_select|test_swapdb.*"),
    ("Redis's own replication and persistence",
     r"test_role|test_replicaof.*|test_slaveof.*|test_psync|test_sync|test_bgsave|test_lastsave|test_save"
     r"|test_failover|test_readonly_invalid_cluster_state|test_cluster_.*|test_shutdown.*"),
    ("Redis's own inspection", r"test_slowlog.*|test_latency.*|test_memory_.*|test_lolwut|test_debug.*"),
    ("caches in clients, and clients that pause", r"test_client_(tracking.*|caching.*|pause.*|unpause)"),
    ("all of Redis's commands", r"test_command|test_command_count|test_command_list|test_command_getkeys.*"
     r"|test_get_keys_predetermined_key_location|test_get_moveable_keys|test_get_eval_keys_with_0_keys"),
    ("errors made by DEBUG", r"test_busy_loading.*|test_read_only_error|test_oom_error|test_connect_no_auth_configured"
     r"|test_connect_invalid_auth_credentials_supplied"),
    ("a server at port 6379", r"test_client_setinfo|test_retry_connect_on_timeout_error"
     r"|test_create_single_connection_client_from_url"),
    ("lists in a transaction", r"test_exec_error_in_response|test_exec_error_raised|test_parse_error_raised.*"),
]

# These use several keys in one transaction, or MSETNX.
ONE_SHARD = re.compile(
    r"test_msetnx|test_pipeline_(memoryview|length|get|discard)|test_watch_.*|test_unwatch.*"
    r"|test_transaction_callable.*|test_health_check_in_(transaction|watched_pipeline)"
    r"|test_exec_error_.*|test_pipeline_no_transaction_watch.*|test_transaction_with.*|test_pipeline_set.*")

counts = collections.Counter()


def pytest_collection_modifyitems(items):
    several = int(os.environ["VARVE_SHARDS"]) > 1
    for item in items:
        name = item.name.split("[")[0]
        reason = next((reason for reason, pattern in OUT_OF_SCOPE
                       if re.fullmatch(pattern, name)), None)
        if reason is None and several and ONE_SHARD.fullmatch(name):
            reason = "keys of different shards: run with one shard"
        if reason is not None:
            counts[reason] += 1
            item.add_marker(pytest.mark.skip(reason=f"out of scope: {reason}"))


def pytest_terminal_summary(terminalreporter):
    for reason, count in counts.most_common():
        terminalreporter.write_line(f"out of scope: {count:4d} {reason}")
