// The staircase inside the host's kernel: a scheduler of sched_ext for the threads of vCPUs.
//
// A thread is a vCPU if it is in the class SCHED_EXT; all others stay where they are (SCX_OPS_SWITCH_PARTIAL). All vCPUs
// that wait are in one queue, ordered by stair and then by arrival. The rules are those of `rsdl` (sched/src/policy/rsdl):
// charge, rotation, sleep, wake, start. A CPU with nothing to do takes the head. A vCPU that wakes takes an idle CPU, or
// makes one reschedule on which a vCPU stands on a later stair.
//
// Locks: the kernel calls with a run queue's lock held. What CPUs share (`served`, `arrivals`, `runnable`) is atomic or a
// hint; a vCPU's place is written only while its run queue's lock is held.

#include "kernel.h"

#define LEVELS 40
#define NICES 40
// How far above the served stair a vCPU may come back that slept.
#define LAG 2
// The first stair. Above 0, as sleepers stand above the served one.
#define FIRST (LEVELS * 1024)
#define MAX_CPUS 1024
// The queue of all that wait.
#define WAITING 1
// Stairs that one charge can lead down.
#define STEPS 16

// What user space sets before this is loaded (vmm/ext/src/lib.rs).
struct config {
    // CPU time on each stair, by nice value (unit: ns).
    u64 quota[NICES];
    // The least that quotas shrink to, and the time that all runnable vCPUs may take for a quota each (unit: ns).
    u64 least_quota;
    u64 target_latency;
    u32 cpus;
    u32 slots;
    // Stairs from a level to the next one that the nice value allows, and to the one before.
    unsigned char down[NICES][LEVELS];
    unsigned char up[NICES][LEVELS];
};

const volatile struct config config SEC(".rodata.config");

// Where a vCPU stands.
struct place {
    u64 stair;
    u64 used;
    // Its place in the order of arrival.
    u64 arrived;
    // The thread's CPU time up to which it is charged (unit: ns).
    u64 charged;
    // It lets the head of the queue go first.
    u64 yielded;
    // Free time when it fell asleep.
    u64 slept_at;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct place);
} places SEC(".maps");

// What runs on a CPU.
struct running {
    u64 stair;
    u64 since;
    // What it had left of its quota then.
    u64 left;
    u32 vcpu_runs;
    // A vCPU was woken for which it is to make room.
    u32 contested;
};

struct running on_cpu[MAX_CPUS];

// Read by user space.
struct counts {
    u64 wakes_idle;
    u64 wakes_ahead;
    u64 wakes_queued;
    u64 leases;
    u64 goes_on;
} counts SEC(".bss.counts");

static u64 served = FIRST;
static u64 arrivals;
static long runnable;
static u32 probe;

// Time that is free because no vCPU waits, up to when that last changed; since then it is free or it is not. Two CPUs that
// change it at once may lose some of it.
static u64 free_time;
static u64 turned;
static u32 contended;

static inline struct running *running_on(s32 cpu)
{
    return &on_cpu[cpu & (MAX_CPUS - 1)];
}

static inline u32 row_of(struct task_struct *p)
{
    u32 row = p->static_prio - 100;
    return row < NICES ? row : 20;
}

static inline u64 after(u32 row, u64 stair)
{
    u32 level = stair % LEVELS;
    if (row >= NICES || level >= LEVELS)
        return stair + 1;
    return stair + config.down[row][level];
}

static inline u64 before(u32 row, u64 stair)
{
    u32 level = stair % LEVELS;
    if (row >= NICES || level >= LEVELS)
        return stair - 1;
    return stair - config.up[row][level];
}

static inline u64 at_or_after(u32 row, u64 stair)
{
    return after(row, stair - 1);
}

// A quota, shrunk while many vCPUs can run.
static inline u64 quota_of(u32 row)
{
    u64 quota = row < NICES ? config.quota[row] : config.quota[20];
    u64 crowd = runnable > 0 ? runnable : 1;
    u64 most = config.target_latency * config.slots / crowd;
    if (most < config.least_quota)
        most = config.least_quota;
    // All by the same part, so that weights hold.
    return most < config.quota[20] ? quota * most / config.quota[20] : quota;
}

static inline struct place *place_of(struct task_struct *p)
{
    struct place *place = bpf_task_storage_get(&places, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (place && !place->stair) {
        u32 row = row_of(p);
        place->stair = at_or_after(row, served);
        place->used = quota_of(row) / 2;
        place->charged = p->se.sum_exec_runtime;
    }
    return place;
}

static inline u64 free_so_far(u64 now)
{
    return contended || now < turned ? free_time : free_time + (now - turned);
}

static inline void turn(void)
{
    u64 now = scx_bpf_now();
    u32 is_contended = runnable > (long)config.slots;
    if (is_contended == contended)
        return;
    free_time = free_so_far(now);
    turned = now;
    contended = is_contended;
}

// Charges a vCPU for what it ran while others waited. One that has used a quota up stands behind all others of its new stair.
static inline void charge(struct task_struct *p, struct place *place)
{
    u32 row = row_of(p);
    u64 quota = quota_of(row), ran = p->se.sum_exec_runtime;
    u64 now = scx_bpf_now(), since = now > turned ? now - turned : 0;
    u64 paid = ran - place->charged, stair = place->stair, used;

    place->charged = ran;
    if (contended)
        paid = paid < since ? paid : since;
    else if (!scx_bpf_dsq_nr_queued(WAITING))
        // One may wait without that, where other threads have a CPU.
        return;
    used = place->used + paid;
    if (used >= quota) {
        for (int i = 0; i < STEPS && used >= quota; i++) {
            used -= quota;
            stair = after(row, stair);
        }
        if (used >= quota)
            used = 0;
        place->arrived = __sync_fetch_and_add(&arrivals, 1);
    }
    place->stair = stair;
    place->used = used;
}

// A vCPU that was left behind comes up to what sleeping may keep.
static inline void catch_up(struct task_struct *p, struct place *place)
{
    u64 lowest = served - LAG;
    if (place->stair < lowest) {
        place->stair = at_or_after(row_of(p), lowest);
        place->used = 0;
    }
}

static inline u64 key_of(struct place *place)
{
    return place->stair << 32 | (u32)place->arrived;
}

// As long as the quota lasts; if that is less than half of it, the next one as well.
static inline u64 lease_of(struct task_struct *p, struct place *place)
{
    u64 quota = quota_of(row_of(p));
    u64 left = place->used < quota ? quota - place->used : 0;
    return left < quota / 2 ? left + quota : left;
}

// What a vCPU gains that slept while time was free: as if those that ran meanwhile had paid.
static inline void credit(struct task_struct *p, struct place *place)
{
    u32 row = row_of(p);
    u64 quota = quota_of(row), now = free_so_far(scx_bpf_now());
    u64 gained = now > place->slept_at ? now - place->slept_at : 0;
    u64 stair = place->stair, used = place->used;

    place->slept_at = now;
    for (int i = 0; i < STEPS && gained > used && stair > served - LAG; i++) {
        gained -= used;
        stair = before(row, stair);
        used = quota;
    }
    used = gained < used ? used - gained : 0;
    if (used >= quota) {
        stair = after(row, stair);
        used = 0;
    }
    place->stair = stair;
    place->used = used;
}

static inline void wakes(struct task_struct *p, struct place *place)
{
    credit(p, place);
    catch_up(p, place);
    place->arrived = __sync_fetch_and_add(&arrivals, 1);
}

// A CPU has it as what runs.
static inline void begins(struct task_struct *p, struct place *place, s32 cpu)
{
    struct running *running = running_on(cpu);
    u64 quota = quota_of(row_of(p));
    running->stair = place->stair;
    running->since = scx_bpf_now();
    running->left = place->used < quota ? quota - place->used : 0;
    running->vcpu_runs = 1;
    running->contested = 0;
    if (place->stair > served)
        served = place->stair;
}

// Whether a vCPU that woke goes ahead of the one that runs on a CPU.
static inline bool goes_ahead(struct task_struct *p, struct place *place, s32 cpu)
{
    struct running *running = running_on(cpu);
    u64 now = scx_bpf_now(), since = running->since;
    if (!running->vcpu_runs || running->contested || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
        return false;
    if (since < turned)
        since = turned;
    return running->stair + (contended && now > since + running->left) > place->stair;
}

// Where a vCPU goes that woke: an idle CPU, or one on which it goes ahead, its last one first. There it is queued next.
SEC("struct_ops/select_cpu")
s32 stile_select_cpu(u64 *ctx)
{
    struct task_struct *p = (void *)ctx[0];
    s32 cpu = ctx[1], idle = cpu, other;
    struct place *place = place_of(p);

    if (!place)
        return cpu;
    wakes(p, place);
    if (!scx_bpf_test_and_clear_cpu_idle(cpu))
        idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
    if (idle >= 0) {
        __sync_fetch_and_add(&counts.wakes_idle, 1);
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, lease_of(p, place), 0);
        return idle;
    }
    if (goes_ahead(p, place, cpu))
        return cpu;
    // One more, another one each time.
    other = config.cpus ? ++probe % config.cpus : cpu;
    if (other == cpu)
        other = config.cpus ? ++probe % config.cpus : cpu;
    return goes_ahead(p, place, other) ? other : cpu;
}

SEC("struct_ops/enqueue")
void stile_enqueue(u64 *ctx)
{
    struct task_struct *p = (void *)ctx[0];
    u64 flags = ctx[1];
    struct place *place = place_of(p);
    struct scx_bpf_dsq_insert_vtime_args args = {};
    s32 cpu = scx_bpf_task_cpu(p);

    if (!place) {
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, config.least_quota, flags);
        return;
    }
    catch_up(p, place);
    if (flags & SCX_ENQ_WAKEUP) {
        // A thread that may use one CPU only has not come by the function above.
        if (!(flags & SCX_ENQ_CPU_SELECTED))
            wakes(p, place);
        if (goes_ahead(p, place, cpu)) {
            running_on(cpu)->contested = 1;
            __sync_fetch_and_add(&counts.wakes_ahead, 1);
            scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, lease_of(p, place), flags | SCX_ENQ_PREEMPT);
            return;
        }
        __sync_fetch_and_add(&counts.wakes_queued, 1);
    }
    args.dsq_id = WAITING;
    args.slice = lease_of(p, place);
    args.vtime = key_of(place);
    args.enq_flags = flags;
    if (place->yielded) {
        struct task_struct *head = scx_bpf_dsq_peek(WAITING);
        place->yielded = 0;
        if (head && head->scx.dsq_vtime > args.vtime)
            args.vtime = (head->scx.dsq_vtime & ~0xffffffffull) | (u32)place->arrived;
    }
    __scx_bpf_dsq_insert_vtime(p, &args);
    cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
    if (cpu >= 0)
        scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

SEC("struct_ops/dispatch")
void stile_dispatch(u64 *ctx)
{
    s32 cpu = ctx[0];
    struct task_struct *prev = (void *)ctx[1], *head;
    struct place *place;

    if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
        place = place_of(prev);
        if (place) {
            bool stays;
            charge(prev, place);
            head = scx_bpf_dsq_peek(WAITING);
            stays = !head || (!place->yielded && key_of(place) < head->scx.dsq_vtime);
            if (stays) {
                place->yielded = 0;
                scx_bpf_task_set_slice(prev, lease_of(prev, place));
                begins(prev, place, cpu);
                __sync_fetch_and_add(&counts.goes_on, 1);
                return;
            }
        }
    }
    if (scx_bpf_dsq_move_to_local(WAITING))
        __sync_fetch_and_add(&counts.leases, 1);
}

SEC("struct_ops/running")
void stile_running(u64 *ctx)
{
    struct task_struct *p = (void *)ctx[0];
    struct place *place = place_of(p);
    if (!place)
        return;
    place->charged = p->se.sum_exec_runtime;
    begins(p, place, scx_bpf_task_cpu(p));
}

SEC("struct_ops/stopping")
void stile_stopping(u64 *ctx)
{
    struct task_struct *p = (void *)ctx[0];
    struct place *place = place_of(p);
    struct running *running = running_on(scx_bpf_task_cpu(p));
    running->vcpu_runs = 0;
    if (place)
        charge(p, place);
}

SEC("struct_ops/yield")
bool stile_yield(u64 *ctx)
{
    struct task_struct *p = (void *)ctx[0];
    struct place *place = place_of(p);
    if (place) {
        place->arrived = __sync_fetch_and_add(&arrivals, 1);
        place->yielded = 1;
    }
    scx_bpf_task_set_slice(p, 0);
    return false;
}

SEC("struct_ops/runnable")
void stile_runnable(u64 *ctx)
{
    __sync_fetch_and_add(&runnable, 1);
    turn();
}

SEC("struct_ops/quiescent")
void stile_quiescent(u64 *ctx)
{
    struct task_struct *p = (void *)ctx[0];
    struct place *place = place_of(p);
    __sync_fetch_and_add(&runnable, -1);
    turn();
    if (place)
        place->slept_at = free_so_far(scx_bpf_now());
}

SEC("struct_ops.s/init")
s32 stile_init(u64 *ctx)
{
    return scx_bpf_create_dsq(WAITING, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops stile = {
    .select_cpu = stile_select_cpu,
    .enqueue = stile_enqueue,
    .dispatch = stile_dispatch,
    .running = stile_running,
    .stopping = stile_stopping,
    .yield = stile_yield,
    .runnable = stile_runnable,
    .quiescent = stile_quiescent,
    .init = stile_init,
    .flags = SCX_OPS_SWITCH_PARTIAL,
    .name = "stile",
};

// The kernel asks for a licence that it takes for compatible with its own.
char scheduler_license[] SEC("license") = "Dual MIT/GPL";
