# What tests with Linux guests share; they read it with `. /lane/linux.sh`.

# configure NAME VCPUS ORDERS: a [[vm]] of the image that `stile guest build linux` makes, on standard output. `vm_keys` has
# more of its keys.
configure() {
    cat <<TOML
[[vm]]
name = "$1"
kernel = "/lane/linux/vmlinuz"
initrd = "/lane/linux/initramfs.cpio"
vcpus = $2
memory = "256M"
cmdline = 'console=ttyS0 quiet panic=-1 stile.run="$3"'
${vm_keys:-}
TOML
}

# policy NAME: a [policy], on standard output. `policy_keys` has more of its keys.
policy() {
    printf '[policy]\nalgorithm = "%s"\n%s\n\n' "$1" "${policy_keys:-}"
}

# in_user_space MECHANISM: guests have their interrupt controllers in stile from now on, and policies this mechanism.
in_user_space() {
    vm_keys='interrupts = "user"'
    policy_keys="mechanism = \"$1\""
}

# moves_freely: whether the outer system's kernel lets a vCPU change threads at once, as Linux does since 6.13.
moves_freely() {
    [ "$(printf '%s\n6.13\n' "$(uname -r)" | sort -V | head -n 1)" = 6.13 ]
}

# boots VCPUS POLICY: such a guest comes to its first process, has these CPUs, and powers off.
boots() {
    { policy "$2"; configure linux "$1" "echo hello from Linux; nproc"; } >guest.toml
    echo "-- $1 vCPUs under $2"
    stile run guest.toml >output 2>&1 || { code=$?; cat output; echo "stile run ended with $code"; return 1; }
    cat output
    grep -q "hello from Linux" output && grep -q "^$1\>" output && grep -q "stile: finished ok" output
}

# compares SUITE ARGUMENT...: one round of a comparison with Linux guests. `image` is the folder of their image, if it is not
# the usual one.
compares() {
    rm -rf report
    # What it shows while it runs is not for a log.
    stile compare "$@" --guest "linux:${image:-/lane/linux}" --reps 1 --out report 2>progress || { tail -c 2000 progress; return 1; }
    stile check-report report/report.json
}

# has_figures SUITE METRIC: the report has the suite's throughput and this metric, and none is 0.
has_figures() {
    for metric in throughput "$2"; do
        grep -q "\"suite\":\"$1\".*\"$metric\":[0-9.]*[1-9]" report/raw/*.jsonl || {
            echo "no $metric of $1 in the report"
            cat report/raw/*.jsonl
            return 1
        }
    done
}

# policies: those of the report, in the order of their names.
policies() {
    sed 's/.*"policy":"\([^"]*\)".*/\1/' report/raw/*.jsonl | sort -u | tr '\n' ' '
}

# shows VM: what its vCPUs do, twice. A vCPU that gets on has run longer the second time.
shows() {
    echo "-- what $1's vCPUs do, now and two seconds later"
    stile inspect "$1" --json | tr -d ' \n'
    echo
    sleep 2
    stile inspect "$1" --json | tr -d ' \n'
    echo
}

# give_up TEXT: ends a test of a node, with what there is to see: the consoles of `guests`, and the node's log.
give_up() {
    echo "$1"
    stile ps
    for name in $guests; do
        stile inspect "$name" >/dev/null 2>&1 || { echo "-- there is no $name"; continue; }
        shows "$name"
        echo "-- the end of $name's console"
        stile console $name | tail -n 40
    done
    echo "-- the node's log"
    tail -n 30 log
    exit 1
}

# waits_for WHAT COMMAND...: until the command succeeds, but not for good.
waits_for() {
    what=$1
    shift
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || give_up "$what does not come"
        sleep 0.3
    done
}

# printed VM TEXT: whether the guest has printed this. A VM that there is not yet has not.
printed() {
    stile console "$1" 2>/dev/null | grep -q "$2"
}

# field VM KEY: of what the node tells of the VM; the first is that of the VM, those of its vCPUs follow.
field() {
    stile inspect "$1" --json | sed -n "s/^ *\"$2\": \"*\([^\",]*\)\"*,*$/\1/p"
}
