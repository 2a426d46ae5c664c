#!/bin/sh
# stile's scheduler of sched_ext inside the outer kernel: unikernels on two CPUs and on one, and a Linux guest that boots.
#
# limit: 300
# needs: linux-guest
. /lane/linux.sh
{ policy host; configure linux 1 "true"; } >guest.toml
stile check guest.toml --policy ext >/dev/null 2>&1 || { echo "skipped: built without sched-ext"; exit 0; }
[ -d /sys/kernel/sched_ext ] || { echo "skipped: the kernel has no sched_ext"; exit 0; }

# ran: the kernel had no fault to find, and has let the scheduler go.
ran() {
    dmesg | grep sched_ext | tail -n 2
    dmesg | grep -q '"stile" enabled' && ! dmesg | grep '"stile" disabled' | grep -qv 'from user space' &&
        [ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
}

stile compare weights --policies host,ext --reps 1 --duration 4 --out report 2>progress || { cat progress; exit 1; }
stile compare ticket --policies ext --vcpus 4 --pcpus 0 --reps 1 --duration 1 --out ticket 2>progress || { cat progress; exit 1; }
ran && boots 2 ext && ran
