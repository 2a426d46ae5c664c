#!/bin/sh
# Linux guests of a node: paused and resumed, a hundred changes while they run, and the power button, that of the node's end too.
#
# limit: 900
# needs: linux-guest
. /lane/linux.sh
export STILE_SOCKET=$PWD/node.sock
guests="counts idles early"

# count: what each of the guest's two counters has come to. A line that is not whole does not count.
end_of_line=$(printf '\r')
count() {
    { printf 'cpu0 0\r\ncpu1 0\r\n'; stile console counts; } >console
    for cpu in 0 1; do sed -n "s/^cpu$cpu \([0-9][0-9]*\)$end_of_line$/\1/p" console | tail -n 1; done | tr '\n' ' '
}

# has_counted FIRST SECOND: both counters are beyond these.
has_counted() {
    set -- "$@" $(count)
    [ "$3" -gt "$1" ] && [ "$4" -gt "$2" ]
}

# goes_on: both vCPUs get on, from here.
goes_on() {
    waits_for "progress of both vCPUs" has_counted $(count)
}

# has_ended VM OUTCOME: whether events tell so.
has_ended() {
    grep "ended vm=$1 " events >told && { grep -q "outcome=$2" told || give_up "$1: $(cat told)"; }
}

# A counter on each CPU, which works and sleeps.
{
    cat <<'SCRIPT'
for cpu in 0 1; do
    taskset $((cpu + 1)) sh -c "
        n=0
        while :; do
            i=0
            while [ \$i -lt 100 ]; do i=\$((i + 1)); done
            n=\$((n + 1))
            echo cpu$cpu \$n
            sleep 0.05
        done" &
done
wait
SCRIPT
    yes "" | head -c 4096
} | head -c 4096 >script.img

{
    policy rsdl
    configure counts 2 "busybox sh /dev/vda"
    echo 'disk = "script.img"'
    printf '[[vm]]\nname = "hog"\nimage = "builtin:hog"\n\n'
} >node.toml
{
    vm_keys='interrupts = "user"' configure idles 2 "idle"
    configure early 1 "idle"
} >more.toml

stile serve node.toml --files "$PWD" --files /lane/linux --grace 60s >log 2>&1 &
node=$!
waits_for "the node" stile ps >/dev/null 2>&1
stile events >events 2>/dev/null &
waits_for "the first process" printed counts "^stile: started"
stile console counts | grep "^stile: started"
waits_for "a count on both CPUs" has_counted 0 0

echo "-- paused"
stile pause counts || give_up "it is not paused"
before=$(count)
# The pCPUs are given up a moment later, and the account is settled then.
sleep 1
run=$(field counts run_seconds)
idle=$(field counts idle_seconds | head -n 1)
sleep 2
[ "$(field counts run_seconds)" = "$run" ] || give_up "vCPUs ran: $run, then $(field counts run_seconds)"
[ "$(field counts idle_seconds | head -n 1)" != "$idle" ] || give_up "time stands still"
[ "$(count)" = "$before" ] || give_up "it has counted: $before, then $(count)"
stile resume counts || give_up "it is not resumed"
goes_on

echo "-- a hundred changes"
seed=7
# draw COUNT: a number below it, in `drawn`.
draw() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}
policy=rsdl
changes=0
while [ $changes -lt 100 ]; do
    draw 5
    case $drawn in
    0)
        case $policy in rsdl) policy=o1 ;; o1) policy=credit2 ;; credit2) policy=host ;; host) policy=rsdl ;; esac
        set -- policy $policy
        ;;
    1) draw 21 && set -- set counts nice=$((drawn - 10)) ;;
    2) draw 2 && set -- set counts class=$([ $drawn = 0 ] && echo batch || echo normal) ;;
    3)
        # `host` keeps no caps.
        [ $policy != host ] || continue
        draw 3
        case $drawn in 0) set -- set counts cap=0.5 ;; 1) set -- set counts cap=1.5 ;; 2) set -- set counts cap=none ;; esac
        ;;
    4) draw 2 && set -- pcpus $([ $drawn = 0 ] && echo 0 || echo 0-1) ;;
    esac
    stile "$@" >told 2>&1 || give_up "stile $*: $(cat told)"
    changes=$((changes + 1))
    if [ $((changes % 10)) = 0 ]; then
        goes_on
        echo "$changes changes, counted $(count)"
    fi
done
[ "$(field counts state)" = running ] && [ "$(field counts index | wc -l)" = 2 ] || give_up "a vCPU was lost"
[ "$(field hog state)" = running ] || give_up "the other VM has ended"

echo "-- the power button"
# The grace is longer than the wait for the end: of a guest that stands still there is something to see.
stile stop counts --grace 600s &
stops=$!
waits_for "its end" has_ended counts "powered off"
wait $stops || give_up "it does not stop"
printed counts "^stile: the power button was pressed" || give_up "it does not say why"

# The draws leave the policy o1 and a VM of nice -10. Beside it, two Linux guests did not boot within 68 s: a hundredth of
# their waits took 0.9 s and more.
{ stile policy rsdl && stile set counts nice=0 class=normal cap=none; } >told 2>&1 || give_up "it is not as before: $(cat told)"

echo "-- the power button of a guest that has no driver for it yet"
stile create more.toml || give_up "there are no more guests"
stile start early && stile stop early --grace 60s || give_up "it does not stop"
waits_for "its end" has_ended early "powered off"

echo "-- the power buttons as the node ends"
stile start idles || give_up "it does not start"
stile start counts || give_up "it does not start again"
waits_for "the order" printed idles "^stile: begin 0"
: >events
kill -TERM $node
wait $node || give_up "the node ended with $?"
for name in counts idles; do
    has_ended $name "powered off" || { cat events log; exit 1; }
done
