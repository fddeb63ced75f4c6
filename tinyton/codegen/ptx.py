"""What only NVIDIA's compilers understand: PTX instructions, and looks at bits, as named functions. No other text of a
kernel has PTX in it, save what a user writes: so whatever can stand in for these instructions can run CUDA C++.

An entry is the text of a function, as `Writer.use` or, of those for one type, `Writer.helper` fills it in.
"""

from __future__ import annotations

# >>> stage 8
from ..ops.warpgroup import WORDS

# <<<
PTX = {
    "half_bits": """
{fn} unsigned short half_bits(float x) {{  // round to nearest even
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}}""",
    "half_value": """
{fn} float half_value(unsigned short h) {{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}}""",
    "bfloat_bits": """
{fn} unsigned short bfloat_bits(float x) {{  // round to nearest even; a NaN stays one
#if __CUDA_ARCH__ >= 800
    unsigned short h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
#else
    const unsigned int b = bits_of(x);
    return (unsigned short)(x != x ? b >> 16 | 0x40 : (b + 0x7fff + (b >> 16 & 1)) >> 16);
#endif
}}""",
    "round_bfloat16": """
{fn} float round_bfloat16(float x) {{  // as one of two: by itself, the conversion there and back is a slow instruction
#if __CUDA_ARCH__ >= 800
    unsigned int pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(pair) : "f"(x));
    return float_of(pair << 16);
#else
    return bfloat_value(bfloat_bits(x));
#endif
}}""",
    "wide_product": """
{fn} unsigned long long wide_product(unsigned int a, unsigned int b) {{
    unsigned long long p;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(p) : "r"(a), "r"(b));
    return p;
}}""",
    "power_of_2": """
{fn} float power_of_2(float x) {{  // below the least normal number, 0
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}}""",
    "reciprocal": """
{fn} float reciprocal(float x) {{  // within 1 unit in the last place; below the least normal number, 0
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}}""",
    "bits_of": "\n{fn} unsigned int bits_of(float x) {{ return __float_as_uint(x); }}",
    "float_of": "\n{fn} float float_of(unsigned int b) {{ return __uint_as_float(b); }}",
    "bits_of_double": """
{fn} unsigned long long bits_of_double(double x) {{
    return (unsigned long long)__double_as_longlong(x);
}}""",
    "double_of": "\n{fn} double double_of(unsigned long long b) {{ return __longlong_as_double((long long)b); }}",
    "double_to_half": """
{fn} float double_to_half(double x) {{
    unsigned short h;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(x));
    return half_value(h);
}}""",
    # >>> stage 7
    "exchange": """
{fn} unsigned short {name}(unsigned short* at, unsigned short seen, unsigned short next) {{
    asm volatile("atom.{scope}.cas.b16 %0, [%1], %2, %3;" : "=h"(seen) : "l"(at), "h"(seen), "h"(next) : "memory");
    return seen;
}}""",
    "rounded": """
{fn} {T} {name}({params}) {{
    {T} r;
    asm("{word} %0, {places};" : "={letter}"(r) : {ins});
    return r;
}}""",
    # <<<
    # >>> stage 8
    "e4m3_value": """
{fn} float e4m3_value(unsigned char h) {{
#if __CUDA_ARCH__ >= 890
    unsigned int pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)h));
    return half_value((unsigned short)pair);
#else
    return float8_value(h);
#endif
}}""",
    "tf32_bits": """
{fn} unsigned int tf32_bits(float x) {{  // rounded to 10 bits of fraction
    unsigned int bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}}""",
    "split_tf32": """
{fn} void split_tf32(unsigned int* x, unsigned int* rest) {{  // x becomes tf32, and what that leaves out another
    const float whole = float_of(*x);
    *x = tf32_bits(whole);
    *rest = tf32_bits(whole - float_of(*x));
}}""",
    "shared_address": """
{fn} unsigned int shared_address(const void* at) {{
    return (unsigned int)__cvta_generic_to_shared(at);
}}""",
    "load_matrices": """
{fn} void load_matrices(unsigned int* to, const char* row) {{  // four of 8 by 16 bytes; a lane gives a row's address
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(row)) : "memory");
}}""",
    "load_matrices_turned": """
{fn} void load_matrices_turned(unsigned int* to, const char* row) {{  // of 16-bit elements, columns as rows
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(row)) : "memory");
}}""",
    "first_of_warp": """
{fn} int first_of_warp() {{  // the number of this warp's first thread: as one for all of them
    return __shfl_sync(0xffffffffu, threadIdx.x, 0);
}}""",
    "warpgroup_multiply": """
{fn} void {name}({c}* sum, {kind} x, unsigned long long y, int add) {{  // 64 by {n} sums, 32 bytes
    asm volatile("{{ .reg .pred on; setp.ne.b32 on, {add}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{words} {{{places}}}, {x}, {y}, on{more}; }}"
        : {sums}
        : {given}, "l"(y), "r"(add));
}}""",
    "warpgroup_names": """
    asm volatile("{words}"
        : {sums} :: "memory");""",
    "move_16": """
{fn} void move_16(void* to, const char* from, bool on) {{  // 16 bytes to an array, if it is on, without a branch
    const uint4 v = *(const uint4*)from;
    asm volatile("{{ .reg .pred there; setp.ne.b32 there, %5, 0;\\n"
        "@there st.global.v4.b32 [%0], {{%1, %2, %3, %4}}; }}"
        :: "l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"((int)on) : "memory");
}}""",
    # <<<
    # >>> stage 9
    "TensorMap": """
struct __align__(64) TensorMap {{ unsigned long long words[16]; }};  // of an array, as the driver describes it""",
    "map_needed": """
{fn} void map_needed(const TensorMap* map) {{  // soon
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}}""",
    "barrier_begins": """
{fn} void barrier_begins(unsigned long long* at, unsigned int arrivals) {{  // of so many, each round
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(at)), "r"(arrivals) : "memory");
}}""",
    "barrier_expects": """
{fn} void barrier_expects(unsigned long long* at, unsigned int bytes) {{  // and arrives
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(at)), "r"(bytes) : "memory");
}}""",
    "barrier_arrive": """
{fn} void barrier_arrive(unsigned long long* at) {{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(at)) : "memory");
}}""",
    "barrier_wait": """
{fn} void barrier_wait(unsigned long long* at, unsigned int parity) {{  // until a round of that parity is over
    asm volatile("{{ .reg .pred over;\\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\\n"
        "@over bra over_now;\\n"
        "bra again;\\n"
        "over_now: }}" :: "r"(shared_address(at)), "r"(parity) : "memory");
}}""",
    "in_block": """
{fn} const char* in_block(const char* at, int rank) {{  // the same place in the shared memory of a cluster's block
    const char* there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(at), "r"(rank));
    return there;
}}""",
    "blocks_meet": """
{fn} void blocks_meet() {{  // the threads of a cluster, which see then what any of them has written
    blocks_arrive();
    blocks_wait();
}}""",
    "registers_given": """
template <int KEPT> {fn} void registers_given() {{  // a group of warps gives registers away, and keeps so many a thread
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(KEPT));
}}""",
    "registers_taken": """
template <int HELD> {fn} void registers_taken() {{  // a group of warps waits for so many a thread
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(HELD));
}}""",
    # <<<
}

# >>> stage 8


def alone(name: str, what: str, text: str, number: str = "") -> None:
    """Adds a function that is one instruction, without operands but a ``number`` that is known when it is compiled."""
    head, operands = (f"template <int {number}> ", f' "n"({number}) ') if number else ("", "")
    body = f'asm volatile("{text};" ::{operands}: "memory");'
    PTX[name] = f"\n{head}{{fn}} void {name}() {{{{  // {what}\n    {body}\n}}}}"


SEEN = "what this thread has written is seen by the units that read shared memory themselves"
BEFORE = "before the first product that uses registers or shared memory anew"
alone("shared_written", SEEN, "fence.proxy.async.shared::cta")
alone("warpgroup_fence", BEFORE, "wgmma.fence.sync.aligned")
alone("warpgroup_sent", "the products since are a group", "wgmma.commit_group.sync.aligned")
DONE = "until all groups of products are done but the last ones"
alone("warpgroup_wait", DONE, "wgmma.wait_group.sync.aligned %0", "LATER")
FLOAT8 = """
{{fn}} unsigned char {kind}_bits(float x) {{{{  // round to nearest even, at most {most}; a NaN stays one
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm("cvt.rn.satfinite.{kind}x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return (unsigned char)pair;
#else
    return float8_bits(x, {numbers});
#endif
}}}}"""
for kind, most, numbers in (("e4m3", 448, "20, 120, 0x7e"), ("e5m2", 57344, "21, 112, 0x7b")):
    PTX[f"{kind}_bits"] = FLOAT8.format(kind=kind, most=most, numbers=numbers)
PACK = """
{{fn}} unsigned int pack_{kind}(float low, float high) {{{{
    unsigned int pair;
    asm("cvt.rn.{kind}x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}}}}"""
PTX |= {f"pack_{kind}": PACK.format(kind=kind) for kind in ("f16", "bf16")}
MULTIPLY = """
{{fn}} void {name}({c}* sum, const unsigned int* x, const unsigned int* y) {{{{  // of a warp: 16 by 8 sums, 32 bytes
    asm("mma.sync.aligned.{shape}.row.col.{words} "
        "{{{{%0, %1, %2, %3}}}}, {{{{%4, %5, %6, %7}}}}, {{{{%8, %9}}}}, {{{{%0, %1, %2, %3}}}};"
        : "+{letter}"(sum[0]), "+{letter}"(sum[1]), "+{letter}"(sum[2]), "+{letter}"(sum[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}}}}"""
PTX["multiply_f64"] = """
{fn} void multiply_f64(double* sum, const double* x, const double* y) {{  // of a warp: 16 by 8 sums, 32 bytes
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {{%0, %1, %2, %3}}, {{%4, %5}}, {{%6}}, {{%0, %1, %2, %3}};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3]) : "d"(x[0]), "d"(x[1]), "d"(y[0]));
#else
    for (int half = 0; half < 2; ++half)
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{%0, %1}}, {{%2}}, {{%3}}, {{%0, %1}};"
            : "+d"(sum[2 * half]), "+d"(sum[2 * half + 1]) : "d"(x[half]), "d"(y[0]));
#endif
}}"""
for kind, (words, k) in WORDS.items():
    sums, name = words.partition(".")[0], f"multiply_{kind}"
    c, letter = ("float", "f") if sums == "f32" else ("int", "r")
    PTX[name] = MULTIPLY.format(name=name, c=c, letter=letter, shape=f"m16n8k{k}", words=f"{words}.{sums}")
DESCRIBE = """
{{fn}} unsigned long long describe_{width}(const char* at, unsigned int column) {{{{  // of {width}-byte pieces of rows
    return {word:#x}ull | (unsigned long long)(column >> 4) << 16 | (shared_address(at) >> 4 & 0x3fff);
}}}}"""
for kind, width in ((1, 128), (2, 64), (3, 32)):
    PTX[f"describe_{width}"] = DESCRIBE.format(width=width, word=kind << 62 | 8 * width >> 4 << 32)
# <<<
# >>> stage 9
alone("copies_asked", "what this thread has asked for since is a group", "cp.async.commit_group")
alone("copies_wait", "until all groups of this thread but the last ones are there", "cp.async.wait_group %0", "LATER")
alone("barriers_begun", "all of them, for copies too", "fence.mbarrier_init.release.cluster")
alone("threads_meet", "those that multiply", "bar.sync 1, %0", "THREADS")
alone("blocks_arrive", "the other blocks of a cluster may go on", "barrier.cluster.arrive.release")
alone("blocks_wait", "for the threads of all blocks of a cluster to arrive", "barrier.cluster.wait.acquire")
COPY = """
{{fn}} void copy_{size}(char* to, const void* from, bool on) {{{{  // {size} bytes, or zeros, while work goes on
    asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size}, %2;"
                 :: "r"(shared_address(to)), "l"(from), "r"(on ? {size} : 0) : "memory");
}}}}"""
for size, cache in ((4, "ca"), (8, "ca"), (16, "cg")):
    PTX[f"copy_{size}"] = COPY.format(size=size, cache=cache)
BOX = """
{{fn}} void copy_box_{rank}(char* to, const TensorMap* map, {params}, unsigned long long* barrier) {{{{
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {{{{{places}}}}}], [%2];"
                 :: "r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), {values} : "memory");
}}}}"""
for rank in range(2, 6):
    names = [f"x{k}" for k in range(rank)]
    lists = {
        "params": ", ".join(f"int {x}" for x in names),
        "places": ", ".join(f"%{k + 3}" for k in range(rank)),
        "values": ", ".join(f'"r"({x})' for x in names),
    }
    PTX[f"copy_box_{rank}"] = BOX.format(rank=rank, **lists)
# <<<
