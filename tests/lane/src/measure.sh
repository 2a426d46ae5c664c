# Of a measurement: runs stile with the arguments that are set, and writes what it has made to the disk for results. Is given
# $name of the results' folder, $busy CPU at the start, $pause before it and $seconds after which it is ended.

for disk in /dev/vda /dev/sda; do [ -b $disk ] && break; done
mkdir -p "/tmp/out/$name" /root/.cache/stile/guests && cd "/tmp/out/$name" || exit 1
for image in linux linux-large; do ln -sfn /lane/$image /root/.cache/stile/guests/$image; done

# The kernel puts new threads where nothing runs.
taskset $((1 << busy)) timeout 0.2 sh -c 'while :; do :; done' &
sleep "$pause"
echo "-- stile $*"
timeout -s INT "$seconds" stile "$@"
code=$?
# The machine may be off before its serial line has sent all of it.
cp /tmp/printed output.txt

tar -c -f $disk -C /tmp/out . && sync || exit 1
exit $code
