import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.function.*;

import com.google.common.hash.Funnels;
import org.apache.datasketches.filters.bloomfilter.BloomFilterBuilder;
import org.apache.datasketches.memory.Memory;

/**
 * Filters of Spark, Guava and DataSketches. `make DIR` writes the files of testdata/foreign, and
 * `check DIR` reads the files that tamis has written and asks for their members.
 *
 * Keys are the strings key-0 to key-399, the integers i * i - 1000 for i from 0 to 399, or both.
 */
public class Foreign {
    static final int KEYS = 400;

    static String text(int i) { return "key-" + i; }
    static long number(int i) { return (long) i * i - 1000; }

    interface Write { void to(OutputStream out) throws IOException; }

    static void save(Path path, Write write) throws IOException {
        try (var out = Files.newOutputStream(path)) { write.to(out); }
    }

    public static void main(String[] arguments) throws Exception {
        var folder = Path.of(arguments[1]);
        if (arguments[0].equals("make")) make(folder); else check(folder);
    }

    static void make(Path folder) throws IOException {
        for (var version : org.apache.spark.util.sketch.BloomFilter.Version.values()) {
            var filter = org.apache.spark.util.sketch.BloomFilter.create(version, 1000, 9600, 7);
            for (int i = 0; i < KEYS; i++) { filter.putString(text(i)); filter.putLong(number(i)); }
            save(folder.resolve("spark-" + version.name().toLowerCase() + ".bin"), filter::writeTo);
        }
        var longs = com.google.common.hash.BloomFilter.create(Funnels.longFunnel(), 1000, 0.01);
        var ints = com.google.common.hash.BloomFilter.create(Funnels.integerFunnel(), 1000, 0.01);
        var utf8 = com.google.common.hash.BloomFilter.create(Funnels.stringFunnel(StandardCharsets.UTF_8), 1000, 0.01);
        var utf16 = com.google.common.hash.BloomFilter.create(Funnels.unencodedCharsFunnel(), 1000, 0.01);
        for (int i = 0; i < KEYS; i++) {
            longs.put(number(i)); ints.put((int) number(i)); utf8.put(text(i)); utf16.put(text(i));
        }
        save(folder.resolve("guava-int64.bin"), longs::writeTo);
        save(folder.resolve("guava-int32.bin"), ints::writeTo);
        save(folder.resolve("guava-utf8.bin"), utf8::writeTo);
        save(folder.resolve("guava-utf16.bin"), utf16::writeTo);
        var sketch = BloomFilterBuilder.createByAccuracy(1000, 0.01, 9001);
        for (int i = 0; i < KEYS; i++) { sketch.update(text(i)); sketch.update(number(i)); }
        Files.write(folder.resolve("datasketches.bin"), sketch.toByteArray());
        Files.write(folder.resolve("datasketches-empty.bin"), BloomFilterBuilder.createByAccuracy(1000, 0.01, 9001).toByteArray());
    }

    /** Fails unless all members are found and few others. */
    static void expect(String name, IntPredicate contains) {
        int found = 0, others = 0;
        for (int i = 0; i < KEYS; i++) if (contains.test(i)) found++;
        for (int i = 1_000_000; i < 1_010_000; i++) if (contains.test(i)) others++;
        System.out.println(name + ": " + found + " of " + KEYS + " members, " + others + " of 10000 others");
        if (found != KEYS || others > 400) System.exit(1);
    }

    static void check(Path folder) throws IOException {
        for (var version : new String[] {"v1", "v2"}) {
            try (var in = Files.newInputStream(folder.resolve("spark_" + version + "-texts.bin"))) {
                var filter = org.apache.spark.util.sketch.BloomFilter.readFrom(in);
                expect("spark " + version, i -> filter.mightContainString(text(i)));
            }
        }
        try (var in = Files.newInputStream(folder.resolve("guava-texts.bin"))) {
            var filter = com.google.common.hash.BloomFilter.readFrom(in, Funnels.stringFunnel(StandardCharsets.UTF_8));
            expect("guava", i -> filter.mightContain(text(i)));
        }
        var bytes = Files.readAllBytes(folder.resolve("datasketches-texts.bin"));
        var sketch = org.apache.datasketches.filters.bloomfilter.BloomFilter.heapify(Memory.wrap(bytes));
        expect("datasketches", i -> sketch.query(text(i)));
    }
}
