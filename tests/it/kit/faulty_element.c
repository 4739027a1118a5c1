/*
 * An element under the name of one of hardware, for tests of what follows when one fails: an encoder of H.264 (ENCODES) or a decoder of
 * MPEG-2, which does its work in software. At frame FAULT_FRAME of trials (IN_TRIAL) or of runs, counted over all instances of the
 * process, it has the fault FAULT: 'f'ails, 'h'angs, 'c'rashes, puts out 'z'eros, or an encoder gets 'g'rey frames.
 */
#include <gst/gst.h>
#include <string.h>
#include <unistd.h>

/* A process may load both. */
#if ENCODES
#define FaultyElement FaultyEncoder
#define FaultyElementClass FaultyEncoderClass
#define PLUGIN nvcodec
#define NAME "nvh264enc"
#define CLASS "Codec/Encoder/Video/Hardware"
#define SOFTWARE "x264enc"
#define INPUT "video/x-raw, format=NV12"
#define OUTPUT "video/x-h264"
#else
#define FaultyElement FaultyDecoder
#define FaultyElementClass FaultyDecoderClass
#define PLUGIN va
#define NAME "nvmpeg2videodec"
#define CLASS "Codec/Decoder/Video/Hardware"
#define SOFTWARE "avdec_mpeg2video"
#define INPUT "video/mpeg, mpegversion=2, systemstream=false, parsed=true"
#define OUTPUT "video/x-raw"
#endif

/* The size of the video of trials; films of the tests have another one. */
#define TRIAL_WIDTH 640

typedef struct { GstBin bin; } FaultyElement;
typedef struct { GstBinClass parent; } FaultyElementClass;
G_DEFINE_TYPE(FaultyElement, faulty_element, GST_TYPE_BIN)

static gint frames;

static gboolean is_faulty(void)
{
    return g_atomic_int_get(&frames) >= FAULT_FRAME;
}

static gboolean is_counted(GstPad *pad)
{
    gint width = 0;
    GstCaps *caps = gst_pad_get_current_caps(pad);
    if (caps) {
        gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &width);
        gst_caps_unref(caps);
    }
    return (width == TRIAL_WIDTH) == IN_TRIAL;
}

static GstPadProbeReturn fill(GstPadProbeInfo *info, int value)
{
    GstBuffer *buffer = gst_buffer_copy_deep(GST_PAD_PROBE_INFO_BUFFER(info));
    gst_buffer_memset(buffer, 0, value, gst_buffer_get_size(buffer));
    gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
    GST_PAD_PROBE_INFO_DATA(info) = buffer;
    return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn handle_frame(GstPad *pad, GstPadProbeInfo *info, gpointer element)
{
    if (!is_counted(pad)) {
        return GST_PAD_PROBE_OK;
    }
    g_atomic_int_inc(&frames);
    if (!is_faulty()) {
        return GST_PAD_PROBE_OK;
    }
    switch (FAULT) {
    case 'f':
        GST_ELEMENT_ERROR(element, LIBRARY, ENCODE, ("the device is gone"), (NULL));
        return GST_PAD_PROBE_DROP;
    case 'h':
        for (;;) {
            sleep(1); // The sandbox refuses pause.
        }
    case 'c':
        *(volatile int *)0 = 1;
        return GST_PAD_PROBE_DROP;
    case 'g':
        return fill(info, 128);
    default:
        return GST_PAD_PROBE_OK;
    }
}

static GstPadProbeReturn handle_output(GstPad *pad, GstPadProbeInfo *info, gpointer element)
{
    (void)element;
    return FAULT == 'z' && is_counted(pad) && is_faulty() ? fill(info, 0) : GST_PAD_PROBE_OK;
}

static void faulty_element_init(FaultyElement *self)
{
    GstElement *software = gst_element_factory_make(SOFTWARE, NULL);
#if ENCODES
    gst_util_set_object_arg(G_OBJECT(software), "speed-preset", "ultrafast");
    g_object_set(software, "key-int-max", 250, "bitrate", 2000, NULL);
#endif
    gst_bin_add(GST_BIN(self), software);
    GstPad *input = gst_element_get_static_pad(software, "sink"), *output = gst_element_get_static_pad(software, "src");
    gst_element_add_pad(GST_ELEMENT(self), gst_ghost_pad_new("sink", input));
    gst_element_add_pad(GST_ELEMENT(self), gst_ghost_pad_new("src", output));
    gst_pad_add_probe(input, GST_PAD_PROBE_TYPE_BUFFER, handle_frame, self, NULL);
    gst_pad_add_probe(output, GST_PAD_PROBE_TYPE_BUFFER, handle_output, self, NULL);
    gst_object_unref(input);
    gst_object_unref(output);
}

/* The properties of the encoder whose name it has are accepted, and have no effect. */
static void ignore_value(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
    (void)object, (void)id, (void)value, (void)spec;
}

static void faulty_element_class_init(FaultyElementClass *class)
{
    GObjectClass *object_class = G_OBJECT_CLASS(class);
    GstElementClass *element_class = GST_ELEMENT_CLASS(class);
    object_class->set_property = ignore_value;
    g_object_class_install_property(
        object_class, 1, g_param_spec_uint("max-bitrate", "", "", 0, G_MAXUINT, 0, G_PARAM_WRITABLE));
    g_object_class_install_property(object_class, 2, g_param_spec_int("gop-size", "", "", -1, G_MAXINT, 0, G_PARAM_WRITABLE));
    g_object_class_install_property(object_class, 3, g_param_spec_string("rc-mode", "", "", "", G_PARAM_WRITABLE));
    g_object_class_install_property(object_class, 4, g_param_spec_uint("bframes", "", "", 0, 4, 0, G_PARAM_WRITABLE));
    g_object_class_install_property(object_class, 5, g_param_spec_boolean("strict-gop", "", "", FALSE, G_PARAM_WRITABLE));
    GstCaps *input = gst_caps_from_string(INPUT), *output = gst_caps_from_string(OUTPUT);
    gst_element_class_add_pad_template(element_class, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, input));
    gst_element_class_add_pad_template(element_class, gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, output));
    gst_caps_unref(input);
    gst_caps_unref(output);
    gst_element_class_set_static_metadata(
        element_class, "Faulty element", CLASS, "Fails for tests", "Hearthcast");
}

static gboolean register_element(GstPlugin *plugin)
{
    return gst_element_register(plugin, NAME, GST_RANK_PRIMARY + 100, faulty_element_get_type());
}

#define PACKAGE "hearthcast-tests"
GST_PLUGIN_DEFINE(
    GST_VERSION_MAJOR, GST_VERSION_MINOR, PLUGIN, "A faulty element", register_element, "1.0", "LGPL", PACKAGE, PACKAGE)
