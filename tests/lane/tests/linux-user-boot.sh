#!/bin/sh
# A Linux guest whose interrupt controllers are in user space boots and powers off: by executors, leases and the host.
#
# limit: 600
# needs: linux-guest
. /lane/linux.sh
in_user_space executors
boots 1 rsdl || exit
in_user_space leases
boots 1 rsdl && boots 1 host
