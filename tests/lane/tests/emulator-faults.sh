#!/bin/sh
# Counts the guests that the emulator loses: 30 starts of guests of two vCPUs, three at once, under the host's scheduler.
#
# limit: 3000
# needs: linux-guest
. /lane/linux.sh

# Its own faults are triple faults and guests that stand still; the lane is not to run it again for them.
{
    policy host
    for name in a b c; do configure $name 2 "true"; done
} >guest.toml
lost=0
still=0
for round in 1 2 3 4 5 6 7 8 9 10; do
    timeout -s INT 240 stile run guest.toml >output 2>&1
    [ $? = 0 ] || cp output "output-$round"
    lost=$((lost + $(grep -c "triple fault" output)))
    still=$((still + 3 - $(grep -cE "powered off|triple fault" output)))
    echo "after $((3 * round)) starts: $lost triple faults, $still stood still"
done
for file in output-*; do
    [ -e "$file" ] && { echo "-- $file"; tail -n 12 "$file"; }
done
exit 0
