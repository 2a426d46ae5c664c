#!/bin/sh
# Linux guests that attack by all their devices, beside guests that go on: a netbench pair on their network, a probe, and a
# Linux guest with a disk. Nobody but an attacker ends or errs, and nothing of the attackers stays.
#
# limit: 900
# needs: linux-guest
. /lane/linux.sh
export STILE_SOCKET=$PWD/node.sock
guests="first second victim"
seconds=30

# figure VM KEY: the VM's, and not those of its vCPUs.
figure() {
    field "$1" "$2" | head -n 1
}

# has_gone_on VM EXITS: the VM has made more exits than that, by some.
has_gone_on() {
    [ "$(figure "$1" exits)" -gt $(($2 + 20)) ]
}

# is_stopped VM
is_stopped() {
    [ "$(figure "$1" state)" = stopped ]
}

# holdings: threads and descriptors of the node.
holdings() {
    echo "$(ls /proc/$node/task | wc -l) $(ls /proc/$node/fd | wc -l)"
}

# are_back THREADS DESCRIPTORS: the node holds no more.
are_back() {
    set -- "$@" $(holdings)
    [ "$3" -le "$1" ] && [ "$4" -le "$2" ]
}

truncate -s 4M first.img second.img victim.img
{
    policy rsdl
    cat <<'TOML'
[[vm]]
name = "server"
image = "builtin:netbench-server"
network = "lan"

[[vm]]
name = "client"
image = "builtin:netbench-client"
network = "lan"
cmdline = "server=10.0.0.1"

[[vm]]
name = "probe"
image = "builtin:probe"

TOML
    configure victim 1 "write /dev/vda 4M 3; echo written; hackbench -g 1 -f 2 -l 100000000"
    echo 'disk = "victim.img"'
} >node.toml
# attacker NAME SEED VCPUS INTERRUPTS
attacker() {
    vm_keys="interrupts = \"$4\"" configure "$1" "$3" "attack $seconds $2; echo survived"
    printf 'network = "lan"\ndisk = "%s.img"\nvsock = "%s.sock"\n\n' "$1" "$1"
}
{
    attacker first 1 1 kernel
    attacker second 2 2 user
} >attackers.toml

stile serve node.toml --files "$PWD" --files /lane/linux >log 2>&1 &
node=$!
waits_for "the node" stile ps >/dev/null 2>&1
waits_for "the victim's disk" printed victim "^written"
before=$(holdings)
written=$(md5sum <victim.img)

echo "-- two attackers, for $seconds s"
stile create attackers.toml && stile start first && stile start second || give_up "they do not start"
waits_for "the attacks" printed first "stile: begin 0"
client=$(figure client exits)
probe=$(figure probe exits)
victim=$(figure victim turns)
waits_for "the first attacker's end" is_stopped first
waits_for "the second attacker's end" is_stopped second
for name in first second; do
    stile console $name | grep -a "inputs to"
    echo "$name: $(figure $name outcome)"
    printed $name "^survived" || give_up "$name has not survived its own attack"
done

echo "-- the others"
has_gone_on client "$client" || give_up "the netbench pair has not gone on"
has_gone_on probe "$probe" || give_up "the probe has not gone on"
[ "$(figure victim turns)" -gt "$victim" ] || give_up "the victim has not gone on"
waits_for "netbench" has_gone_on client "$(figure client exits)"
waits_for "the probe" has_gone_on probe "$(figure probe exits)"
for name in server client probe victim; do
    [ "$(figure $name state)" = running ] || give_up "$name has ended"
done
for name in server client probe; do
    [ -z "$(stile console $name)" ] || give_up "$name complains"
done
waits_for "what the attackers held" are_back $before
echo "-- $(holdings) threads and descriptors, as before"

[ "$(md5sum <victim.img)" = "$written" ] || give_up "the victim's disk was changed"
echo "-- of the node's log"
grep -a "turned off" log | sort | uniq -c | head -n 20
kill -TERM $node
wait $node || give_up "the node ended with $?"
