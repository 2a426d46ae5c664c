#!/bin/sh
# The same with two and four vCPUs, which start each other by INIT and start-up messages.
#
# limit: 1200
# needs: linux-guest
. /lane/linux.sh
in_user_space executors
boots 2 rsdl || exit
# A kernel that lets a vCPU change threads only after some 10 ms takes minutes to boot four; with one thread none changes.
moves_freely || policy_keys="$policy_keys
[host]
pcpus = [0]"
boots 4 rsdl || exit
in_user_space leases
boots 2 host && boots 4 rsdl
