/* Compares the structs of python/src/xla_ffi.h with those of an installed jaxlib. It only has to compile. */
#include "xla_ffi.h"

#include <assert.h>
#include <xla/ffi/api/c_api.h>

#define SAME(ours, theirs, our_member, their_member)                                        \
  static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member), #our_member); \
  static_assert(sizeof(((ours*)0)->our_member) == sizeof(((theirs*)0)->their_member), #our_member)

SAME(XlaVersion, XLA_FFI_Api_Version, major, major_version);
SAME(XlaVersion, XLA_FFI_Api_Version, minor, minor_version);
SAME(XlaMetadata, XLA_FFI_Metadata, api_version, api_version);
SAME(XlaMetadata, XLA_FFI_Metadata, traits, traits);
SAME(XlaMetadataExtension, XLA_FFI_Metadata_Extension, base.type, extension_base.type);
SAME(XlaMetadataExtension, XLA_FFI_Metadata_Extension, base.next, extension_base.next);
SAME(XlaMetadataExtension, XLA_FFI_Metadata_Extension, metadata, metadata);
SAME(XlaErrorCreate, XLA_FFI_Error_Create_Args, message, message);
SAME(XlaErrorCreate, XLA_FFI_Error_Create_Args, code, errc);
SAME(XlaStreamGet, XLA_FFI_Stream_Get_Args, context, ctx);
SAME(XlaStreamGet, XLA_FFI_Stream_Get_Args, stream, stream);
SAME(XlaDeviceOrdinalGet, XLA_FFI_DeviceOrdinal_Get_Args, context, ctx);
SAME(XlaDeviceOrdinalGet, XLA_FFI_DeviceOrdinal_Get_Args, device, device_ordinal);
SAME(XlaApi, XLA_FFI_Api, error_create, XLA_FFI_Error_Create);
SAME(XlaApi, XLA_FFI_Api, stream_get, XLA_FFI_Stream_Get);
SAME(XlaApi, XLA_FFI_Api, device_ordinal_get, XLA_FFI_DeviceOrdinal_Get);
SAME(XlaBuffer, XLA_FFI_Buffer, data, data);
SAME(XlaText, XLA_FFI_ByteSpan, begin, ptr);
SAME(XlaText, XLA_FFI_ByteSpan, size, len);
SAME(XlaArray, XLA_FFI_Array, size, size);
SAME(XlaArray, XLA_FFI_Array, data, data);
SAME(XlaBuffers, XLA_FFI_Args, size, size);
SAME(XlaBuffers, XLA_FFI_Args, buffers, args);
SAME(XlaBuffers, XLA_FFI_Rets, buffers, rets);
SAME(XlaAttributes, XLA_FFI_Attrs, types, types);
SAME(XlaAttributes, XLA_FFI_Attrs, names, names);
SAME(XlaAttributes, XLA_FFI_Attrs, values, attrs);
SAME(XlaCall, XLA_FFI_CallFrame, extension_start, extension_start);
SAME(XlaCall, XLA_FFI_CallFrame, api, api);
SAME(XlaCall, XLA_FFI_CallFrame, context, ctx);
SAME(XlaCall, XLA_FFI_CallFrame, operands, args);
SAME(XlaCall, XLA_FFI_CallFrame, results, rets);
SAME(XlaCall, XLA_FFI_CallFrame, attributes, attrs);

static_assert(XLA_METADATA == (int)XLA_FFI_Extension_Metadata, "extension");
static_assert(XLA_ARRAY == (int)XLA_FFI_AttrType_ARRAY && XLA_STRING == (int)XLA_FFI_AttrType_STRING, "attributes");
static_assert(XLA_INVALID == (int)XLA_FFI_Error_Code_INVALID_ARGUMENT, "errors");
static_assert(XLA_INTERNAL == (int)XLA_FFI_Error_Code_INTERNAL, "errors");
static_assert(XLA_MAJOR == XLA_FFI_API_MAJOR && XLA_MINOR <= XLA_FFI_API_MINOR, "version");
