# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What others published of the optimizations that the labs measure, in the words
of the documents: {lab: [(what, before, after, where)]}.

Only these are published. A figure that no text of a document has, but a chart, is
"a chart". docs/published.md has each of them beside Varve's, and a test compares
the two.
"""

STATISTICS = "RocksDB's page on statistics, 32 threads"
LOCKLESS = "RocksDB's post of 2014, 32 cores"
TRANSACTIONS = "RavenDB's series of 2016, a million documents"
TABLE_OPEN = "a study of max_open_files, RocksDB 5.9, 40 cores"
SPANS = "TiKV's article on tracing, Core i7-8700"

FIGURES = {
    "superversion": [
        ("rate of Get against 1 to 32 threads", "a chart", "a chart",
         LOCKLESS),
        ("P99 of Get against 1 to 32 threads", "a chart", "a chart", LOCKLESS),
        ("processor time by function", "a chart", "a chart", LOCKLESS)],
    "statistics": [
        ("cycles in recordTick, itself (%)", "30.17", "0.87", STATISTICS),
        ("cache misses in recordTick, itself (%)", "19.50", "0.65",
         STATISTICS),
        ("improvement of processor cycles by it", "1", "7.8 times", STATISTICS),
        ("improvement of cache misses by it", "1", "17.8 times", STATISTICS),
        ("cycles in recordTick by a set per core", "a set per thread",
         "about 23 % worse", STATISTICS),
        ("a query of all statistics, 4,000 clients, average (ms)", "27.91",
         "4.45", "RocksDB's page on statistics, a set per thread before, per "
         "core after")],
    "table-open": [
        ("reads a second, small max_open_files before, -1 after", "14,000",
         "about 300,000", TABLE_OPEN),
        ("a Get: making its table reader (ms)", "1.2", "not given",
         TABLE_OPEN),
        ("a Get: metadata and data blocks without their caches (ms)",
         "0.3 to 0.5", "not given", TABLE_OPEN)],
    "tracing": [
        ("a span, begun, ended and collected (ns)", "not given", "20", SPANS),
        ("throughput lost, all requests traced (%)", "over 50", "under 5",
         f"{SPANS}, the usual libraries before"),
        ("two readings of the standard clock before, of the time stamp "
         "counter after (ns)", "50", "15", SPANS),
        ("two readings of the coarse clock, 4 ms steps (ns)", "not given",
         "10", SPANS),
        ("collecting a span, by a channel before, into a vector of the thread "
         "after (ns)", "40", "4", SPANS)],
    "transactions": [
        ("opening a read transaction (s)", "48.1", "14.7", TRANSACTIONS),
        ("its constructor (s)", "36.3", "6.6", TRANSACTIONS),
        ("the context's management, a request (us)", "42", "35",
         TRANSACTIONS),
        ("the whole million (s, sum over threads)", "342", "264",
         TRANSACTIONS),
        ("lower-casing keys (% of a request)", "5.89", "0.60", TRANSACTIONS),
        ("routing (s)", "29.2", "5", TRANSACTIONS),
        ("look-ups a second of 10 names, 32 threads", "89 M", "180 M",
         "RavenDB's series of 2016, a case-insensitive dictionary before, "
         "learned spellings in a concurrent one after")]}
