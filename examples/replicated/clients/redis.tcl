# Varve: a key-value storage engine. MIT licence, see LICENSE.
#
# usage: tclsh redis.tcl LIST HOST PORT
#
# Redis's own test suite against a running node, for the script `suite`. The current
# folder is the one of Redis's source. LIST has the tests that are skipped. Prints a
# line for each test: passed, failed or skipped, its unit and name, and why it failed.

lassign $argv list host port

# The suite's file defines its procedures, then reads the options, and then would run
# all tests in processes of their own. The last option names a file that does not
# exist, which ends it before that. The tags are of tests that need DEBUG, commands of
# a replica, files, and other settings.
set argv [list --host $host --port $port --singledb --durable --ignore-encoding \
    --ignore-digest --tags {-needs:debug -needs:repl -needs:save -needs:config-maxmemory} \
    --skipfile ""]
set argc [llength $argv]
catch {source tests/test_helper.tcl}
if {[info procs test] eq ""} {
    puts stderr "[pwd] is not the source of Redis: $::errorInfo"
    exit 77
}

# The variables of a file are local here, as in the suite.
proc source_unit {} {source $::curfile}

namespace eval varve {
    variable patterns {}
    variable unit ""

    proc read_list {list} {
        variable patterns
        set input [open $list]
        foreach line [split [read $input] "\n"] {
            if {[string match "  *" $line]} {lappend patterns [string trim $line]}
        }
        close $input
    }

    proc listed {name} {
        variable patterns
        variable unit
        foreach pattern $patterns {
            if {[regexp -- "^(?:$pattern)\$" "$unit: $name"]} {return 1}
        }
        return 0
    }

    proc report {outcome name {why ""}} {
        variable unit
        puts "$outcome\t$unit: $name\t$why"
        flush stdout
    }

    proc run {} {
        variable unit
        foreach unit $::all_tests {
            if {[listed all]} {
                report skipped all
                continue
            }
            set ::curfile tests/$unit.tcl
            set ::tags {}
            if {[catch {::source_unit} error]} {
                report failed "outside of a block" "$error\n$::errorInfo"
            }
        }
    }
}

# The suite's messages. It leaves out itself what its tags say: a test, or a block of
# tests, which has no name.
set test_server_fd 0
proc send_data_packet {fd status data {elapsed 0}} {
    switch $status {
        ok {varve::report passed $data}
        ignore {
            regexp {^(?:(.*): )?((?:Tag: |Not supported |large memory ).*)$} $data all name why
            varve::report skipped [expr {$name eq "" ? "a block" : $name}] $why
        }
        err - exception {
            set end [string first " in $::curfile" $data]
            varve::report failed [string range $data 0 $end-1] [string range $data $end end]
        }
    }
}

rename test suite_test
proc test {name code {pattern undefined} {tags {}}} {
    if {[varve::listed $name]} {
        varve::report skipped $name
    } else {
        uplevel 1 [list suite_test $name $code $pattern $tags]
    }
}

# One block of tests, with settings that the node must know. The suite's own
# procedure calls FUNCTION FLUSH, which is not served.
proc run_external_server_test {code overrides} {
    set client [redis $::host $::port 0 0]
    $client flushall
    set before {}
    foreach {name value} $overrides {
        lappend before $name [lindex [$client config get $name] 1]
        $client config set $name $value
    }
    $client close
    lappend ::servers [dict create host $::host port $::port config [dict create port $::port] \
        client [redis $::host $::port 0 0]]
    if {[catch {uplevel 2 $code} error]} {
        varve::report failed "outside of a test" "$error\n$::errorInfo"
    }
    catch {[dict get [lindex $::servers end] client] close}
    set ::servers [lrange $::servers 0 end-1]
    if {$before ne ""} {
        set client [redis $::host $::port 0 0]
        $client config set {*}$before
        $client close
    }
}

varve::read_list $list
varve::run
