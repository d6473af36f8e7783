# Made by scripts/python_stubs.py from the argument tables of libcubit. Do not edit.
from typing import Any, Literal, TypeAlias

from cubit import errors as errors
from cubit._explain import Explanation as Explanation
from cubit._explain import explain as explain
from cubit._kernel import Kernel as Kernel
from cubit._kernel import get as get
from cubit.errors import Error as Error

Tensor: TypeAlias = Any

def operators() -> list[str]: ...
def devices() -> list[str]: ...

class ConvertLayoutKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, input: Tensor, output: Tensor | None = ..., rows: int | None = ..., columns: int | None = ..., out:
        Any = ...,
    ) -> Any:
        """Convert a matrix of bytes between row-major order and the interleaved layouts of int8 libraries.

        input: I8, U8, F8_E4M3 [rows, columns] or [columns / 32, rows, 32]: the matrix in the layout of the field
            from
        output: I8, U8, F8_E4M3 [rows, columns] or [columns / 32, rows, 32]: the matrix in the layout of the field
            to, of the type of input
        """

def convert_layout(*, to: Literal["row", "col32", "col4_4r2_8c", "col32_2r_4r4"] = ..., **others:
    Any) -> ConvertLayoutKernel: ...

class DequantizeKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, input: Tensor, scale: Tensor, weight_scale: Tensor | None = ..., bias: Tensor | None = ..., residual:
        Tensor | None = ..., output: Tensor | None = ..., rows: int | None = ..., columns: int | None = ..., out: Any
        = ...,
    ) -> Any:
        """Turn int8 codes or int32 sums into 16-bit values, with bias, activation and residual.

        input: I8, I32 [rows, columns] or [columns / 32, rows, 32]: codes or sums; the type follows the field
            input
        scale: F32 [rows] or [1]: scale of each row, or of all rows
        weight_scale: F32 [columns] or [1] (with weight_scale=!none): scale of each column, or of all columns
        bias: F16, BF16 [columns] (with bias=true): added before the function
        residual: F16, BF16 [rows, columns] (with residual=true): added after the function
        output: F16, BF16 [rows, columns]: the result; the type follows the field output
        """

def dequantize(*, input: Literal["int8", "int32"] = ..., scale: Literal["token", "tensor"] = ..., weight_scale:
    Literal["none", "tensor", "channel"] = ..., function: Literal["none", "relu", "silu", "gelu", "gelu_tanh"] = ...,
    bias: bool = ..., residual: bool = ..., layout: Literal["row", "col32"] = ..., output: Literal["fp16", "bf16"] =
    ...) -> DequantizeKernel: ...

class GateQuantizeKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, gate: Tensor, up: Tensor, output: Tensor | None = ..., scale: Tensor | None = ..., scales: Tensor |
        None = ..., zero_points: Tensor | None = ..., rows: int | None = ..., columns: int | None = ..., out: Any =
        ...,
    ) -> Any:
        """Multiply rows by their activated gates, then quantise to int8 or e4m3.

        gate: F16, BF16 [rows, columns]: rows that the function activates; the type follows the field input
        up: F16, BF16 [rows, columns]: rows that multiply the activated gates, of the same type
        output: I8, F8_E4M3, F16, BF16 [rows, columns] or [columns / 32, rows, 32]: the result; the type follows
            output
        scale: F32 [1] (with output=!unquantised,scale=tensor): the scale of all rows, from 2^-100 to 2^100
        scales: F32 [rows] (with output=!unquantised,scale=token): scale of each row; NaN if the row has a value
            that is not finite
        zero_points: I32 [rows] (with scheme=asymmetric): code that stands for 0 in each row, from -128 to 127
        """

def gate_quantize(*, output: Literal["int8", "fp8_e4m3", "unquantised"] = ..., scale: Literal["token", "tensor"] =
    ..., scheme: Literal["symmetric", "asymmetric"] = ..., layout: Literal["row", "col32"] = ..., function:
    Literal["silu", "gelu", "gelu_tanh"] = ..., input: Literal["fp16", "bf16"] = ...) -> GateQuantizeKernel: ...

class GqaDecodeKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, query: Tensor, key: Tensor, value: Tensor, lengths: Tensor | None = ..., key_scale: Tensor | None =
        ..., value_scale: Tensor | None = ..., page_table: Tensor | None = ..., mask: Tensor | None = ...,
        alibi_slopes: Tensor | None = ..., sinks: Tensor | None = ..., score_parameters: Tensor | None = ..., output:
        Tensor | None = ..., lse: Tensor | bool | None = ..., batch: int | None = ..., kv_heads: int | None = ...,
        max_length: int | None = ..., softmax_scale: float | None = ..., page_size: int | None = ..., soft_cap: float
        | None = ..., window: int | None = ..., kept_tokens: int | None = ..., splits: int | None = ..., out: Any =
        ...,
    ) -> Any:
        """Attention of one new token per sequence, or of its last few, over a KV cache, grouped query heads.

        query: BF16, F16 [batch, kv_heads * heads_per_kv, head_dim] or [batch, query_tokens, kv_heads *
            heads_per_kv, head_dim]: queries; the type follows query
        key: BF16, F16, U8, I8, F8_E4M3, F8_E5M2 [pages, page_size, kv_heads, 4 * groups + head_dim / 2] or
            [pages, page_size, kv_heads, head_dim] or [batch, max_length or more, kv_heads, 4 * groups + head_dim / 2]
            or [batch, max_length or more, kv_heads, head_dim]: rows of keys; the type follows kv; a problem takes
            rows with padding with the number padded_rows=1
        value: BF16, F16, U8, I8, F8_E4M3, F8_E5M2 [pages, page_size, kv_heads, 4 * value_groups + value_dim / 2]
            or [pages, page_size, kv_heads, value_dim] or [batch, max_length or more, kv_heads, 4 * value_groups +
            value_dim / 2] or [batch, max_length or more, kv_heads, value_dim]: rows of values; the type follows
            value; padding as for key
        lengths: I32 [batch]: valid tokens of each sequence; read on the device
        key_scale: F32, F16 [batch, max_length or more, kv_heads] or [batch, max_length or more, kv_heads, groups]
            or [batch, max_length or more] or [pages, page_size, kv_heads] or [pages, page_size, kv_heads, groups] or
            [pages, page_size] or [1] (with kv=int8_split|fp8_e4m3|fp8_e5m2): scales of the rows; all tokens may share
            scales of shape [kv_heads] or [kv_heads, groups]
        value_scale: F32, F16 [batch, max_length or more, kv_heads] or [batch, max_length or more, kv_heads,
            value_groups] or [batch, max_length or more] or [pages, page_size, kv_heads] or [pages, page_size,
            kv_heads, value_groups] or [pages, page_size] or [1] (with value=int8_split|fp8_e4m3|fp8_e5m2): scales of
            the rows; all tokens may share scales of shape [kv_heads] or [kv_heads, groups]
        page_table: I32 [batch, ceil(max_length / page_size) or more] (with cache=paged): the page of every
            page_size tokens of a sequence; read on the device
        mask: I32 [batch, query_tokens] (with mask=tree): mask words of tree attention: bit j says whether the
            query token attends to query token j
        alibi_slopes: F32 [kv_heads * heads_per_kv] (with alibi=true): ALiBi slopes
        sinks: F32 [kv_heads * heads_per_kv] (with sinks=true): attention sinks; -inf means no sink
        score_parameters: any type [...] (with score=!none): parameters of the user's modify_score
        output: BF16, F16 [batch, kv_heads * heads_per_kv, value_dim] or [batch, query_tokens, kv_heads *
            heads_per_kv, value_dim]: the result; the type follows output
        lse: F32 [batch, kv_heads * heads_per_kv] or [batch, query_tokens, kv_heads * heads_per_kv]: natural
            log-sum-exp of the scores; a problem writes it with the number lse=1
        softmax_scale: float: factor of the scores, usually 1 / sqrt(head_dim), the default of problems
        soft_cap: float (with soft_cap=true): soft cap of the scores
        window: int32 (with window=true): tokens of the window, at least 1
        kept_tokens: int32 (with window=true): first tokens that every query attends to in addition to the window
        splits: int32: split-KV factor, for tuning, at most 256
        """

def gqa_decode(*, head_dim: int = ..., heads_per_kv: int = ..., kv: Literal["bf16", "fp16", "int4_rows",
    "int8_split", "fp8_e4m3", "fp8_e5m2"] = ..., groups: int = ..., scales: Literal["head", "token", "tensor",
    "group"] = ..., scale_type: Literal["fp32", "fp16"] = ..., value_dim: int = ..., value: Literal["bf16", "fp16",
    "int4_rows", "int8_split", "fp8_e4m3", "fp8_e5m2"] = ..., value_groups: int = ..., value_scales: Literal["head",
    "token", "tensor", "group"] = ..., value_scale_type: Literal["fp32", "fp16"] = ..., query: Literal["bf16", "fp16"]
    = ..., output: Literal["bf16", "fp16"] = ..., cache: Literal["contiguous", "paged"] = ..., query_tokens: int =
    ..., mask: Literal["causal", "tree"] = ..., soft_cap: bool = ..., alibi: bool = ..., score: str = ..., window:
    bool = ..., sinks: bool = ..., alignment: int = ..., family: Literal["auto", "sm75", "sm80", "sm90"] =
    ...) -> GqaDecodeKernel: ...

class KvAppendKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, lengths: Tensor | None = ...,
        positions: Tensor | None = ..., counts: Tensor | None = ..., cosines: Tensor | None = ..., sines: Tensor |
        None = ..., key_scale: Tensor | None = ..., value_scale: Tensor | None = ..., page_table: Tensor | None = ...,
        kv_heads: int | None = ..., max_length: int | None = ..., page_size: int | None = ..., pages: int | None =
        ..., rotary_dim: int | None = ..., batch: int | None = ..., tokens: int | None = ..., out: Any = ...,
    ) -> Any:
        """Append new keys and values to a KV cache: rotary embedding and quantisation in one pass.

        key: BF16, F16 [batch, tokens, kv_heads, head_dim]: new keys; the type follows input
        value: BF16, F16 [batch, tokens, kv_heads, value_dim]: new values; the type follows input
        lengths: I32 [batch]: tokens of each sequence that are in the cache already
        positions: I32 [batch, tokens]: the position of each new token, instead of lengths; a token outside the
            cache is left out
        counts: I32 [batch]: how many of a sequence's new tokens exist
        cosines: F32 [positions, rotary_dim / 2] (with rotary=interleaved|half_split): cosines of the rotary
            embedding by position, up to the last new token
        sines: F32 [positions, rotary_dim / 2] (with rotary=interleaved|half_split): sines of the rotary embedding
            by position, up to the last new token
        key_cache: BF16, F16, U8, I8, F8_E4M3, F8_E5M2 [pages, page_size, kv_heads, 4 * groups + head_dim / 2] or
            [pages, page_size, kv_heads, head_dim] or [batch, max_length or more, kv_heads, 4 * groups + head_dim / 2]
            or [batch, max_length or more, kv_heads, head_dim]: rows of keys; the type follows kv
        value_cache: BF16, F16, U8, I8, F8_E4M3, F8_E5M2 [pages, page_size, kv_heads, 4 * value_groups + value_dim
            / 2] or [pages, page_size, kv_heads, value_dim] or [batch, max_length or more, kv_heads, 4 * value_groups
            + value_dim / 2] or [batch, max_length or more, kv_heads, value_dim]: rows of values; the type follows
            value
        key_scale: F32, F16 [batch, max_length or more, kv_heads] or [batch, max_length or more, kv_heads, groups]
            or [batch, max_length or more] or [pages, page_size, kv_heads] or [pages, page_size, kv_heads, groups] or
            [pages, page_size] or [1] (with kv=int8_split|fp8_e4m3|fp8_e5m2): scales of the rows; written for head and
            group, read for token and tensor
        value_scale: F32, F16 [batch, max_length or more, kv_heads] or [batch, max_length or more, kv_heads,
            value_groups] or [batch, max_length or more] or [pages, page_size, kv_heads] or [pages, page_size,
            kv_heads, value_groups] or [pages, page_size] or [1] (with value=int8_split|fp8_e4m3|fp8_e5m2): scales of
            the rows; written for head and group, read for token and tensor
        page_table: I32 [batch, ceil(max_length / page_size) or more] (with cache=paged): the page of every
            page_size tokens of a sequence; read on the device
        """

def kv_append(*, head_dim: int = ..., kv: Literal["bf16", "fp16", "int4_rows", "int8_split", "fp8_e4m3",
    "fp8_e5m2"] = ..., groups: int = ..., scales: Literal["head", "token", "tensor", "group"] = ..., scale_type:
    Literal["fp32", "fp16"] = ..., value_dim: int = ..., value: Literal["bf16", "fp16", "int4_rows", "int8_split",
    "fp8_e4m3", "fp8_e5m2"] = ..., value_groups: int = ..., value_scales: Literal["head", "token", "tensor", "group"]
    = ..., value_scale_type: Literal["fp32", "fp16"] = ..., input: Literal["bf16", "fp16"] = ..., rotary:
    Literal["none", "interleaved", "half_split"] = ..., cache: Literal["contiguous", "paged"] =
    ...) -> KvAppendKernel: ...

class KvGatherKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, key_cache: Tensor, value_cache: Tensor, key_scale: Tensor | None = ..., value_scale: Tensor | None =
        ..., to: Tensor | None = ..., key: Tensor | None = ..., value: Tensor | None = ..., page_table: Tensor | None
        = ..., kv_heads: int | None = ..., max_length: int | None = ..., page_size: int | None = ..., pages: int |
        None = ..., batch: int | None = ..., tokens: int | None = ..., out: Any = ..., **others: Any,
    ) -> Any:
        """Read rows of a KV cache as 16-bit values: the inverse of kv_append.

        key_cache: BF16, F16, U8, I8, F8_E4M3, F8_E5M2 [pages, page_size, kv_heads, 4 * groups + head_dim / 2] or
            [pages, page_size, kv_heads, head_dim] or [batch, max_length or more, kv_heads, 4 * groups + head_dim / 2]
            or [batch, max_length or more, kv_heads, head_dim]: rows of keys; the type follows kv
        value_cache: BF16, F16, U8, I8, F8_E4M3, F8_E5M2 [pages, page_size, kv_heads, 4 * value_groups + value_dim
            / 2] or [pages, page_size, kv_heads, value_dim] or [batch, max_length or more, kv_heads, 4 * value_groups
            + value_dim / 2] or [batch, max_length or more, kv_heads, value_dim]: rows of values; the type follows
            value
        key_scale: F32, F16 [batch, max_length or more, kv_heads] or [batch, max_length or more, kv_heads, groups]
            or [batch, max_length or more] or [pages, page_size, kv_heads] or [pages, page_size, kv_heads, groups] or
            [pages, page_size] or [1] (with kv=int8_split|fp8_e4m3|fp8_e5m2): scales of the rows; all tokens may share
            scales of shape [kv_heads] or [kv_heads, groups]
        value_scale: F32, F16 [batch, max_length or more, kv_heads] or [batch, max_length or more, kv_heads,
            value_groups] or [batch, max_length or more] or [pages, page_size, kv_heads] or [pages, page_size,
            kv_heads, value_groups] or [pages, page_size] or [1] (with value=int8_split|fp8_e4m3|fp8_e5m2): scales of
            the rows; all tokens may share scales of shape [kv_heads] or [kv_heads, groups]
        from: I32 [batch]: the first token of each sequence
        to: I32 [batch]: one more than the last token of each sequence
        key: BF16, F16 [batch, tokens, kv_heads, head_dim]: keys; the type follows output, and rows without a
            token are zeros
        value: BF16, F16 [batch, tokens, kv_heads, value_dim]: values; the type follows output, and rows without a
            token are zeros
        page_table: I32 [batch, ceil(max_length / page_size) or more] (with cache=paged): the page of every
            page_size tokens of a sequence; read on the device
        """

def kv_gather(*, head_dim: int = ..., kv: Literal["bf16", "fp16", "int4_rows", "int8_split", "fp8_e4m3",
    "fp8_e5m2"] = ..., groups: int = ..., scales: Literal["head", "token", "tensor", "group"] = ..., scale_type:
    Literal["fp32", "fp16"] = ..., value_dim: int = ..., value: Literal["bf16", "fp16", "int4_rows", "int8_split",
    "fp8_e4m3", "fp8_e5m2"] = ..., value_groups: int = ..., value_scales: Literal["head", "token", "tensor", "group"]
    = ..., value_scale_type: Literal["fp32", "fp16"] = ..., output: Literal["bf16", "fp16"] = ..., cache:
    Literal["contiguous", "paged"] = ...) -> KvGatherKernel: ...

class MergeKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, partial_outputs: Tensor, partial_lse: Tensor, output: Tensor | None = ..., lse: Tensor | bool | None
        = ..., parts: int | None = ..., rows: int | None = ..., heads: int | None = ..., out: Any = ...,
    ) -> Any:
        """Merge partial results of attention, each over its own keys, by their log-sum-exp.

        partial_outputs: BF16, F16, F32 [parts, rows..., heads, head_dim]: partial results of attention; the type
            follows input, and the dimensions of queries are free
        partial_lse: F32 [parts, rows..., heads]: natural log-sum-exp of each partial result; -inf marks an empty
            one
        output: BF16, F16, F32 [rows..., heads, head_dim]: the merged result; the type follows output
        lse: F32 [rows..., heads]: log-sum-exp of the merged result; a problem writes it with the number lse=1
        """

def merge(*, head_dim: int = ..., input: Literal["bf16", "fp16", "fp32"] = ..., output: Literal["bf16", "fp16",
    "fp32"] = ...) -> MergeKernel: ...

class NormQuantizeKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, input: Tensor, weight: Tensor, residual: Tensor | None = ..., bias: Tensor | None = ..., sum: Tensor
        | None = ..., output: Tensor | None = ..., scale: Tensor | None = ..., scales: Tensor | None = ...,
        zero_points: Tensor | None = ..., rows: int | None = ..., columns: int | None = ..., epsilon: float | None =
        ..., out: Any = ...,
    ) -> Any:
        """RMSNorm or LayerNorm of rows, with an optional residual, then quantise to int8 or e4m3.

        input: F16, BF16 [rows, columns]: rows of activations; the type follows the field input, as that of all
            16-bit tensors
        residual: F16, BF16 [rows, columns] (with residual=true): added to the input
        weight: F16, BF16 [columns]: multiplies the normalised row
        bias: F16, BF16 [columns] (with bias=true): added to the normalised row
        sum: F16, BF16 [rows, columns] (with residual=true): input plus residual
        output: I8, F8_E4M3, F16, BF16 [rows, columns] or [columns / 32, rows, 32]: the result; the type follows
            output
        scale: F32 [1] (with output=!unquantised,scale=tensor): the scale of all rows, from 2^-100 to 2^100
        scales: F32 [rows] (with output=!unquantised,scale=token): scale of each row; NaN if the row has a value
            that is not finite
        zero_points: I32 [rows] (with scheme=asymmetric): code that stands for 0 in each row, from -128 to 127
        epsilon: float: added to the variance or the mean square
        """

def norm_quantize(*, output: Literal["int8", "fp8_e4m3", "unquantised"] = ..., scale: Literal["token", "tensor"] =
    ..., scheme: Literal["symmetric", "asymmetric"] = ..., layout: Literal["row", "col32"] = ..., norm: Literal["rms",
    "layer"] = ..., residual: bool = ..., bias: bool = ..., input: Literal["fp16", "bf16"] =
    ...) -> NormQuantizeKernel: ...

class QuantizeKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, input: Tensor, output: Tensor | None = ..., scale: Tensor | None = ..., scales: Tensor | None = ...,
        zero_points: Tensor | None = ..., rows: int | None = ..., columns: int | None = ..., out: Any = ...,
    ) -> Any:
        """Quantise rows of 16-bit activations to int8 or e4m3, per token or by a given scale.

        input: F16, BF16 [rows, columns]: rows of activations; the type follows the field input
        output: I8, F8_E4M3 [rows, columns] or [columns / 32, rows, 32]: the result; the type follows output
        scale: F32 [1] (with output=!unquantised,scale=tensor): the scale of all rows, from 2^-100 to 2^100
        scales: F32 [rows] (with output=!unquantised,scale=token): scale of each row; NaN if the row has a value
            that is not finite
        zero_points: I32 [rows] (with scheme=asymmetric): code that stands for 0 in each row, from -128 to 127
        """

def quantize(*, output: Literal["int8", "fp8_e4m3"] = ..., scale: Literal["token", "tensor"] = ..., scheme:
    Literal["symmetric", "asymmetric"] = ..., layout: Literal["row", "col32"] = ..., input: Literal["fp16", "bf16"] =
    ...) -> QuantizeKernel: ...

class StreamCopyKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, source: Tensor, destination: Tensor | None = ..., bytes: int | None = ..., out: Any = ...,
    ) -> Any:
        """A plain copy of a buffer: the floor of kernels that write as they read.

        source: U8 [bytes]: the buffer
        destination: U8 [bytes]: the copy
        """

def stream_copy(*, blocks_per_sm: int = ...) -> StreamCopyKernel: ...

class StreamReadKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, source: Tensor, checksums: Tensor | None = ..., bytes: int | None = ..., out: Any = ...,
    ) -> Any:
        """A plain read of a buffer: the floor that benchmarks compare with.

        source: U8 [bytes]: the buffer
        checksums: U32 [4096]: numbers whose exclusive or is that of the source's words
        """

def stream_read(*, blocks_per_sm: int = ...) -> StreamReadKernel: ...

class W4QuantizeKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, weights: Tensor, qweight: Tensor | None = ..., qzeros: Tensor | None = ..., scales: Tensor | None =
        ..., max_error: Tensor | bool | None = ..., rms_error: Tensor | bool | None = ..., n: int | None = ..., k: int
        | None = ..., out: Any = ...,
    ) -> Any:
        """Round weights to 4 bits, group by group, in a checkpoint's layout, and report the errors.

        weights: F16, BF16 [n, k]: weights as a linear layer has them; the type follows input
        qweight: I32 [k, n / 8] or [k / 8, n]: packed weights, as w4a16_gemm takes them
        qzeros: I32 [1, n / 8] or [ceil(k / group_size), n / 8] (with format=gptq|gptq_v2|awq): packed zeros of
            the groups
        scales: F16 [1, n] or [ceil(k / group_size), n]: scales of the groups
        max_error: F32 [1, n] or [ceil(k / group_size), n]: largest error of a group's weights; a problem leaves
            it out with the number errors=0
        rms_error: F32 [1, n] or [ceil(k / group_size), n]: root of the mean square error of a group's weights
        """

def w4_quantize(*, format: Literal["gptq", "gptq_v2", "awq", "symmetric"] = ..., group_size: Literal[16, 32, 64,
    128, "all"] = ..., scheme: Literal["asymmetric", "symmetric"] = ..., input: Literal["fp16", "bf16"] =
    ...) -> W4QuantizeKernel: ...

class W4a16GemmKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, activations: Tensor, qweight: Tensor | None = ..., weight: Tensor | None = ..., scales: Tensor | None
        = ..., qzeros: Tensor | None = ..., g_idx: Tensor | None = ..., bias: Tensor | None = ..., residual: Tensor |
        None = ..., qweight_2: Tensor | None = ..., scales_2: Tensor | None = ..., qzeros_2: Tensor | None = ...,
        bias_2: Tensor | None = ..., qweight_3: Tensor | None = ..., scales_3: Tensor | None = ..., qzeros_3: Tensor |
        None = ..., bias_3: Tensor | None = ..., output: Tensor | None = ..., m: int | None = ..., n: int | None =
        ..., k: int | None = ..., decomposition: int | None = ..., splits: int | None = ..., groups: int | None = ...,
        n_2: int | None = ..., n_3: int | None = ..., out: Any = ...,
    ) -> Any:
        """Activations times 4-bit or 8-bit weights, as GPTQ and AWQ checkpoints store them, or times dense weights.

        activations: F16, BF16 [m, k]: activations; the type follows element
        qweight: I32 [k, n / 8] or [k / 4, n] or [k / 8, n] (with format=gptq|gptq_v2|awq|symmetric): packed
            weights, as a checkpoint stores them
        weight: F16, BF16 [n, k] (with format=dense): dense weights, as a checkpoint stores them; the type follows
            element
        scales: F16 [groups, n] or [1, n] or [ceil(k / group_size), n] (with format=gptq|gptq_v2|awq|symmetric):
            scales of the groups; a problem also takes BF16 scales that F16 represents exactly
        qzeros: I32 [groups, n / 4] or [1, n / 4] or [ceil(k / group_size), n / 4] or [groups, n / 8] or [1, n /
            8] or [ceil(k / group_size), n / 8] (with format=gptq|gptq_v2|awq): packed zeros of the groups
        g_idx: I32 [k] (with activation_order=true): group of each k; a problem also takes the trivial one, k /
            group_size
        bias: F16, BF16 [n] (with bias=true): bias; a problem rounds F16, BF16 and F32 to the activations' type
        residual: F16, BF16 [m, n] or [m, n / 2] or [m, n + n_2] or [m, n + n_2 + n_3] (with residual=true): added
            to the result; may be the output
        qweight_2: I32 [k, n_2 / 8] or [k / 4, n_2] or [k / 8, n_2] (with layers=2|3): packed weights of the
            second layer
        scales_2: F16 [groups, n_2] or [1, n_2] or [ceil(k / group_size), n_2] (with layers=2|3): its scales
        qzeros_2: I32 [groups, n_2 / 4] or [1, n_2 / 4] or [ceil(k / group_size), n_2 / 4] or [groups, n_2 / 8] or
            [1, n_2 / 8] or [ceil(k / group_size), n_2 / 8] (with layers=2|3,format=gptq|gptq_v2|awq): its packed
            zeros
        bias_2: F16, BF16 [n_2] (with layers=2|3,bias=true): its bias
        qweight_3: I32 [k, n_3 / 8] or [k / 4, n_3] or [k / 8, n_3] (with layers=3): packed weights of the third
            layer
        scales_3: F16 [groups, n_3] or [1, n_3] or [ceil(k / group_size), n_3] (with layers=3): its scales
        qzeros_3: I32 [groups, n_3 / 4] or [1, n_3 / 4] or [ceil(k / group_size), n_3 / 4] or [groups, n_3 / 8] or
            [1, n_3 / 8] or [ceil(k / group_size), n_3 / 8] (with layers=3,format=gptq|gptq_v2|awq): its packed zeros
        bias_3: F16, BF16 [n_3] (with layers=3,bias=true): its bias
        output: F16, BF16 [m, n] or [m, n / 2] or [m, n + n_2] or [m, n + n_2 + n_3]: the result
        decomposition: int32: a cubit_w4a16_decomposition, for tuning: 1 data-parallel, 2 split-K, 3 stream-K, 4
            split-K by atomics, which needs atomic_splits=true
        splits: int32: split-K factor, for tuning, at most 256
        """

def w4a16_gemm(*, format: Literal["gptq", "gptq_v2", "awq", "symmetric", "dense"] = ..., bits: int = ...,
    group_size: Literal[16, 32, 64, 128, "all"] = ..., element: Literal["fp16", "bf16"] = ..., tile_m: Literal["auto",
    8, 16, 32, 64, 80, 128, 144, 192, 256] = ..., tile_n: Literal["auto", 256, 224, 160, 128, 96, 64, 32] = ...,
    activation_order: bool = ..., function: Literal["none", "relu", "silu", "gelu", "gelu_tanh", "silu_gate"] = ...,
    bias: bool = ..., residual: bool = ..., layers: int = ..., alignment: int = ..., batch_invariant: bool = ...,
    atomic_splits: bool = ..., family: Literal["auto", "sm75", "sm80", "sm90", "sm90_persistent"] =
    ...) -> W4a16GemmKernel: ...

class W8a8GemmKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, activations: Tensor, weights: Tensor, activation_scales: Tensor | None = ..., weight_scales: Tensor |
        None = ..., activation_zeros: Tensor | None = ..., weight_sums: Tensor | None = ..., output_scale: Tensor |
        None = ..., second_scale: Tensor | None = ..., bias: Tensor | None = ..., residual: Tensor | None = ...,
        output: Tensor | None = ..., second_output: Tensor | None = ..., m: int | None = ..., n: int | None = ..., k:
        int | None = ..., decomposition: int | None = ..., splits: int | None = ..., constant_weights: int | None =
        ..., out: Any = ...,
    ) -> Any:
        """8-bit activations times 8-bit weights, int8 or e4m3, with scales per token and per channel.

        activations: I8, F8_E4M3 [m, k]: activations; the type follows element
        weights: I8, F8_E4M3 [n, k]: weights of the same type
        activation_scales: F32 [m] or [1] (with output=!int32): scales of the activations
        weight_scales: F32 [n] or [1] (with output=!int32): scales of the weights
        activation_zeros: I32 [m] or [1] (with zero_points=true): zero points of the activations
        weight_sums: I32 [n] (with zero_points=true): sums of the rows of the weights, from weight_sums
        output_scale: F32 [1] (with output=int8|fp8_e4m3): scale of the output
        second_scale: F32 [1] (with second_output=int8|fp8_e4m3): scale of the second output
        bias: F16, BF16 [n] (with bias=true): added before the function
        residual: F16, BF16 [m, n / 2] or [m, n] (with residual=true): added to the result; may be an output of 16
            bits
        output: F16, BF16, I32, I8, F8_E4M3 [m, n / 2] or [m, n]: the result
        second_output: I8, F8_E4M3 [m, n / 2] or [m, n] (with second_output=int8|fp8_e4m3): the result as stored,
            quantised by one scale
        decomposition: int32: a cubit_w8a8_decomposition, for tuning: 1 data-parallel, 2 split-K, 3 stream-K, 4
            split-K by atomics, which needs atomic_splits=true
        splits: int32: split-K factor, for tuning, at most 256
        constant_weights: int32: 1: no kernel that may still run when this launch begins writes the weights, so an
            overlapping launch copies them at once
        """

def w8a8_gemm(*, element: Literal["int8", "fp8_e4m3"] = ..., output: Literal["fp16", "bf16", "int32", "int8",
    "fp8_e4m3"] = ..., second_output: Literal["none", "int8", "fp8_e4m3"] = ..., accumulate: Literal["fast",
    "promoted"] = ..., activation_scale: Literal["token", "tensor"] = ..., weight_scale: Literal["channel", "tensor"]
    = ..., zero_points: bool = ..., tile_m: Literal["auto", 8, 16, 32, 64, 128, 192, 256] = ..., function:
    Literal["none", "relu", "silu", "gelu", "gelu_tanh", "silu_gate"] = ..., bias: bool = ..., residual: bool = ...,
    addend: Literal["fp16", "bf16"] = ..., atomic_splits: bool = ..., family: Literal["auto", "sm75", "sm80",
    "sm90_persistent"] = ...) -> W8a8GemmKernel: ...

class WeightSumsKernel(Kernel):
    def __call__(  # type: ignore[override]
        self, *, weights: Tensor, sums: Tensor | None = ..., n: int | None = ..., k: int | None = ..., out: Any = ...,
    ) -> Any:
        """Add up the rows of int8 weights, for w8a8_gemm with zero points of activations.

        weights: I8 [n, k]: weights; rows are contiguous
        sums: I32 [n]: the sum of each row
        """

def weight_sums() -> WeightSumsKernel: ...
