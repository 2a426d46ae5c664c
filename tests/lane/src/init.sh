#!/bin/busybox sh
# The first process of the outer system: runs the tests of /lane/order and powers off. It tells on the second serial line which
# test begins and how it ended. The first one has what tests print.
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin HOME=/root TMPDIR=/tmp STILE_REQUIRE=kvm RUST_BACKTRACE=1
mkdir -p /proc /sys /dev /tmp /root /run
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
# As stile asks of hosts (docs/adr/0005).
echo 0 >/proc/sys/kernel/sched_autogroup_enabled
ip link set lo up
while read -r module options; do
    insmod "$module" $options
done </lane/modules/order

# Beside all tests; src/companion says what for.
/lane/companion &
companion=$!
until [ -e /run/keys-held ] || ! kill -0 $companion; do sleep 0.1; done

# What a test has left running must not disturb the next one.
clear_away() {
    for process in /proc/[0-9]*; do
        case ${process#/proc/} in 1 | $companion) ;; *) kill -KILL "${process#/proc/}" 2>/dev/null ;; esac
    done
}

# As stile says it, and as its tests do. KVM resets a vCPU that has shut down, so its RIP is that of a reset.
lost_tables='at RIP 0xfff0: triple fault|rip: Some\(65520\), kind: TripleFault'

# Seconds since the machine booted, for the lane.
uptime() { cut -d' ' -f1 /proc/uptime; }

# The first test that this machine has to run.
from=$(sed -n 's/.*lane\.from=\([^ ]*\).*/\1/p' /proc/cmdline)

sed -n "/^$from /,\$p" /lane/order >/run/order
while read -r name limit; do
    echo "begin $name $(uptime)" >/dev/ttyS1
    printf '\n== %s\n' "$name"
    for try in 1 2 3; do
        rm -rf /tmp/test && mkdir /tmp/test && cd /tmp/test
        # Not a pipe: what a killed test has left running would hold it open.
        : >/tmp/printed
        tail -f /tmp/printed &
        timeout -s KILL "$limit" sh "/lane/tests/$name" </dev/null >>/tmp/printed 2>&1
        code=$?
        # So often tail looks.
        sleep 1.1
        clear_away
        # The emulator's own fault (docs/adr/0019), which a test may have met and cannot help.
        [ $try != 3 ] && [ "$code" != 0 ] && grep -qE "$lost_tables" /tmp/printed || break
        printf '\n== %s once more: a triple fault, which may be the emulator'\''s\n' "$name"
        echo "again $name $(uptime)" >/dev/ttyS1
    done
    echo "end $name $code $(uptime)" >/dev/ttyS1
done </run/order
# From here on none but this shell uses the line, and what it tells is sent before the machine is off.
kill $companion && wait $companion
echo "done" >/dev/ttyS1
sync
poweroff -f
