use super::{check, written};

/// Two lists whose elements were mixed up in a table of untyped pointers.
const MIXED: &str = "struct node { struct node *next; int key; };
     struct job { int *data; int state; };
     static void *table[2];";

#[test]
fn a_block_is_not_used_as_an_unrelated_structure() {
    let text = format!(
        "{MIXED}
         int main(int count, char **words) {{
             struct node *node = malloc(sizeof *node);
             node->key = 1;
             struct job *job = calloc(4, sizeof *job);
             job->state = 1;
             table[0] = node;
             table[1] = job;
             ((struct node *)table[count])->key = 2; // node
             ((struct job *)table[count])->state = 2; // job
         }}"
    );
    check(&text, |code, text| {
        assert_eq!(
            written(code, text, "node"),
            ["key in the block allocated at program.c:7"]
        );
        assert_eq!(
            written(code, text, "job"),
            ["state in the block allocated at program.c:9"]
        );
    });
}

#[test]
fn a_cast_relates_two_structures() {
    let text = format!(
        "{MIXED}
         static void reset(struct node *node) {{ node->key = 0; }}
         int main(int count, char **words) {{
             struct job *job = malloc(sizeof *job);
             job->state = 1;
             reset((struct node *)job);
             table[0] = job;
             ((struct node *)table[count])->key = 2; // node
         }}"
    );
    check(&text, |code, text| {
        assert_eq!(written(code, text, "node").len(), 1);
    });
}

#[test]
fn bytes_and_blocks_with_a_header_can_be_anything() {
    let text = format!(
        "{MIXED}
         struct header {{ long size; }};
         static char pool[4096];
         static void *get(long size) {{
             struct header *header = malloc(sizeof *header + size);
             header->size = size;
             return header + 1;
         }}
         int main(int count, char **words) {{
             table[0] = pool;
             table[1] = get(sizeof(struct node));
             ((struct node *)table[count])->key = 2; // node
         }}"
    );
    check(&text, |code, text| {
        assert_eq!(written(code, text, "node").len(), 2);
    });
}
