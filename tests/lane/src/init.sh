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

# The second serial line. The last process to close it waits until all is sent, unless that process was killed: then the kernel
# drops what is left. So this one holds it open to the end, and no other is the last.
exec 3>/dev/ttyS1

# Beside all tests; src/companion says what for.
/lane/companion 3>&- &
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
    echo "begin $name $(uptime)" >&3
    printf '\n== %s\n' "$name"
    for try in 1 2 3; do
        rm -rf /tmp/test && mkdir /tmp/test && cd /tmp/test
        # Not a pipe: what a killed test has left running would hold it open.
        : >/tmp/printed
        tail -f /tmp/printed 3>&- &
        timeout -s KILL "$limit" sh "/lane/tests/$name" </dev/null >>/tmp/printed 2>&1 3>&-
        code=$?
        # So often tail looks.
        sleep 1.1
        clear_away
        # The emulator's own fault (docs/adr/0019), which a test may have met and cannot help.
        [ $try != 3 ] && [ "$code" != 0 ] && grep -qE "$lost_tables" /tmp/printed || break
        printf '\n== %s once more: a triple fault, which may be the emulator'\''s\n' "$name"
        echo "again $name $(uptime)" >&3
    done
    echo "end $name $code $(uptime)" >&3
done </run/order
# From here on none but this shell has the line open. To close it waits until all is sent.
kill $companion && wait $companion
echo "done" >&3
exec 3>&-
sync
poweroff -f
