#!/bin/sh
# vCPUs under stile's scheduler of sched_ext inside the outer kernel: unikernels, and a Linux guest that boots.
#
# limit: 300
# needs: linux-guest
. /lane/linux.sh
{ policy host; configure linux 1 "true"; } >guest.toml
if ! stile check guest.toml --policy ext >/dev/null 2>&1; then
    echo "SKIPPED: stile is built without sched-ext"
    exit 0
fi
[ -d /sys/kernel/sched_ext ] || { echo "SKIPPED: the kernel has no sched_ext"; exit 0; }
stile compare ticket --no-jail --policies host,ext --vcpus 4 --reps 1 --duration 1 --out report || { dmesg | tail -30; exit 1; }
boots 2 ext || { dmesg | tail -30; exit 1; }
stile compare hackbench --no-jail --guest linux:/lane/linux --groups 1 --setup 4x256M --pcpus 0 --set loops=5 --set fan=5 --policies host,ext --reps 1 --out report2; dmesg | tail -3
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
