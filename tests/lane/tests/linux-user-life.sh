#!/bin/sh
# A Linux guest with its interrupt controllers in user space takes a vCPU off and back, reboots, and panics.
#
# limit: 600
# needs: linux-guest
. /lane/linux.sh
in_user_space executors

# guest VCPUS: runs a guest that carries out the script on standard input, from its disk. Returns how `stile run` ended.
guest() {
    { cat; echo "exit"; yes "" | head -c 4096; } | head -c 4096 >script.img
    { policy rsdl; configure linux "$1" "busybox sh /dev/vda"; echo 'disk = "script.img"'; } >guest.toml
    stile run guest.toml >output 2>&1
}

# ended CODE EXPECTED: shows what the guest printed if it ended in another way.
ended() {
    [ "$1" = "$2" ] || { cat output; echo "stile run ended with $1, not $2"; exit 1; }
}

echo "-- a vCPU goes and comes back"
guest 2 <<'SCRIPT'
set -e
cat /sys/devices/system/clockevents/clockevent0/current_device
cpu=/sys/devices/system/cpu/cpu1/online
for round in 1 2 3; do
    echo 0 >$cpu
    [ "$(nproc)" = 1 ]
    echo 1 >$cpu
    [ "$(nproc)" = 2 ]
done
grep -E "LOC|RES|CAL|ttyS0|virtio" /proc/interrupts
echo "it came back three times"
SCRIPT
ended $? 0
cat output
grep -q "^it came back" output || exit 1

echo "-- a reboot"
echo "false" | guest 1
ended $? 4

echo "-- a panic"
echo "echo c >/proc/sysrq-trigger" | guest 2
ended $? 5
