#!/bin/sh
# A Linux guest reports to its host over vsock.
#
# limit: 300
# needs: linux-guest whole-vm-tests
STILE_LINUX_GUEST=/lane/linux exec /lane/whole-vm/linux_vsock
