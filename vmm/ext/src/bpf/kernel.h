// What of the kernel's types and functions the scheduler uses. Fields are found by name when it is loaded.

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef _Bool bool;
#define true 1
#define false 0

#define SEC(name) __attribute__((section(name), used))
#define KERNEL_TYPE __attribute__((preserve_access_index))
#define KERNEL_FUNCTION __attribute__((section(".ksyms")))
#define __uint(name, value) int(*name)[value]
#define __type(name, type) typeof(type) *name

#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

#define SCX_OPS_SWITCH_PARTIAL (1ull << 3)
#define SCX_DSQ_LOCAL 0x8000000000000002ull
#define SCX_ENQ_WAKEUP 1ull
#define SCX_ENQ_CPU_SELECTED (1ull << 20)
#define SCX_ENQ_PREEMPT (1ull << 32)
#define SCX_KICK_IDLE 1ull
#define SCX_TASK_QUEUED 1u

struct cpumask {
    unsigned long bits[1];
} KERNEL_TYPE;

struct sched_entity {
    u64 sum_exec_runtime;
} KERNEL_TYPE;

struct sched_ext_entity {
    u32 flags;
    u64 dsq_vtime;
} KERNEL_TYPE;

struct task_struct {
    int static_prio;
    struct sched_entity se;
    struct sched_ext_entity scx;
    const struct cpumask *cpus_ptr;
} KERNEL_TYPE;

struct scx_bpf_dsq_insert_vtime_args {
    u64 dsq_id;
    u64 slice;
    u64 vtime;
    u64 enq_flags;
};

struct sched_ext_ops {
    s32 (*select_cpu)(u64 *);
    void (*enqueue)(u64 *);
    void (*dispatch)(u64 *);
    void (*runnable)(u64 *);
    void (*running)(u64 *);
    void (*stopping)(u64 *);
    void (*quiescent)(u64 *);
    bool (*yield)(u64 *);
    s32 (*init)(u64 *);
    u64 flags;
    char name[128];
};

static void *(*const bpf_task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;

s32 scx_bpf_create_dsq(u64 dsq, s32 node) KERNEL_FUNCTION;
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags) KERNEL_FUNCTION;
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) KERNEL_FUNCTION;
bool scx_bpf_dsq_move_to_local(u64 dsq) KERNEL_FUNCTION;
s32 scx_bpf_dsq_nr_queued(u64 dsq) KERNEL_FUNCTION;
struct task_struct *scx_bpf_dsq_peek(u64 dsq) KERNEL_FUNCTION;
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) KERNEL_FUNCTION;
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) KERNEL_FUNCTION;
s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags) KERNEL_FUNCTION;
s32 scx_bpf_task_cpu(const struct task_struct *p) KERNEL_FUNCTION;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) KERNEL_FUNCTION;
u64 scx_bpf_now(void) KERNEL_FUNCTION;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) KERNEL_FUNCTION;
