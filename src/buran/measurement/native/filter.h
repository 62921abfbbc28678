/* Score-P filter files, for the compiler plugin and for the run-time filter of the fallback.
 *
 *     SCOREP_REGION_NAMES_BEGIN
 *       EXCLUDE *
 *       INCLUDE MANGLED _ZN5Solve* _Z4initv
 *       INCLUDE main solver::step(double,\ int)      # spaces and '#' inside a pattern need a backslash
 *     SCOREP_REGION_NAMES_END
 *     SCOREP_FILE_NAMES_BEGIN
 *       EXCLUDE *.hpp
 *     SCOREP_FILE_NAMES_END
 *
 * Patterns are shell wildcards; the last rule that matches wins. As in Score-P an excluded file excludes its functions,
 * whatever the rules for names say. A pattern without MANGLED may be the demangled signature, the signature without its
 * return type, or the bare name without parameters.
 *
 * Written in the common subset of C and C++.
 */
#ifndef BURAN_FILTER_H
#define BURAN_FILTER_H

#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum buran_verdict { BURAN_NO_RULE = 0, BURAN_INCLUDE = 1, BURAN_EXCLUDE = -1 } buran_verdict;

typedef struct buran_rule {
    buran_verdict verdict;
    int mangled, about_file;
    int line;    /* in the filter file */
    int matched; /* whether any function or file so far; also rules that a later one overrules */
    char *pattern;
} buran_rule;

typedef struct buran_filter {
    buran_rule *rules;
    size_t count;
    int line;      /* where reading stopped: of the mistake, if there is one */
    uint64_t hash; /* FNV-1a of the file */
} buran_filter;

static inline int buran_filter_char(buran_filter *filter, FILE *file) {
    int c = getc(file);
    if (c == '\n')
        filter->line++;
    if (c != EOF)
        filter->hash = (filter->hash ^ (uint64_t)(unsigned char)c) * 0x100000001b3u;
    return c;
}

/* The next word; 0 at the end, negative for a mistake. Comments are skipped; a backslash keeps the next character in the
 * word. `next` holds the character behind the last word. */
static inline int buran_filter_word(buran_filter *filter, FILE *file, int *next, char *word, size_t capacity, int *line) {
    size_t length = 0;
    int c = *next ? *next : buran_filter_char(filter, file);
    for (;;) {
        while (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            c = buran_filter_char(filter, file);
        if (c != '#')
            break;
        while (c != '\n' && c != EOF)
            c = buran_filter_char(filter, file);
    }
    *line = filter->line;
    while (c != EOF && c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != '#') {
        if (length + 3 > capacity)
            return -1;
        word[length++] = (char)c;
        if (c == '\\') {
            c = buran_filter_char(filter, file);
            if (c == EOF || c == '\n')
                return -2;
            word[length++] = (char)c;
        }
        c = buran_filter_char(filter, file);
    }
    *next = c;
    word[length] = '\0';
    return length > 0;
}

/* Returns NULL, or what is wrong with the file in line `filter->line`. */
static inline const char *buran_filter_read(buran_filter *filter, FILE *file) {
    enum { NOWHERE, NAMES, FILES } section = NOWHERE;
    buran_verdict verdict = BURAN_NO_RULE;
    int mangled = 0, status, next = 0, line = 1, opened = 1;
    char word[1 << 16]; /* templates have names of ten thousand characters */
    const char *problem = NULL;

    filter->rules = NULL;
    filter->count = 0;
    filter->line = 1;
    filter->hash = 0xcbf29ce484222325u;
    while (!problem && (status = buran_filter_word(filter, file, &next, word, sizeof word, &line)) != 0) {
        if (status < 0) {
            problem = status == -1 ? "a word of more than 65000 characters" : "a backslash ends the line";
        } else if (!strcmp(word, "SCOREP_REGION_NAMES_BEGIN") || !strcmp(word, "SCOREP_FILE_NAMES_BEGIN")) {
            if (section != NOWHERE)
                problem = "a block begins inside another one";
            opened = line;
            section = word[7] == 'R' ? NAMES : FILES;
            verdict = BURAN_NO_RULE;
            mangled = 0;
        } else if (!strcmp(word, "SCOREP_REGION_NAMES_END") || !strcmp(word, "SCOREP_FILE_NAMES_END")) {
            if (section != (word[7] == 'R' ? NAMES : FILES))
                problem = "a block ends that was not begun";
            section = NOWHERE;
        } else if (section == NOWHERE) {
            problem = "text outside of SCOREP_REGION_NAMES and SCOREP_FILE_NAMES blocks";
        } else if (!strcmp(word, "EXCLUDE") || !strcmp(word, "INCLUDE")) {
            verdict = word[0] == 'I' ? BURAN_INCLUDE : BURAN_EXCLUDE;
            mangled = 0;
        } else if (verdict == BURAN_NO_RULE) {
            problem = "a pattern before EXCLUDE or INCLUDE";
        } else if (section == NAMES && (!strcmp(word, "MANGLED") || !strcmp(word, "DEMANGLED"))) {
            mangled = word[0] == 'M';
        } else {
            buran_rule *rules = (buran_rule *)realloc(filter->rules, (filter->count + 1) * sizeof *rules);
            size_t size = strlen(word) + 1;
            char *pattern = (char *)malloc(size);
            if (!rules || !pattern)
                abort();
            memcpy(pattern, word, size);
            filter->rules = rules;
            rules[filter->count].verdict = verdict;
            rules[filter->count].mangled = mangled;
            rules[filter->count].about_file = section == FILES;
            rules[filter->count].line = line;
            rules[filter->count].matched = 0;
            rules[filter->count].pattern = pattern;
            filter->count++;
        }
    }
    if (!problem && section != NOWHERE) {
        problem = "the file ends inside a block that begins here";
        line = opened;
    }
    filter->line = line;
    return problem;
}

/* The demangled name from its function's name on: `int ns::f<int>(char)` has a return type, as all templates do.
 * The first space outside of brackets that stands before the parameters ends it, except after `operator`. */
static inline const char *buran_filter_after_return_type(const char *name) {
    const char *start = name, *at;
    int depth = 0;
    if (strncmp(name, "operator", 8) == 0)
        return name;
    for (at = name; *at; at++) {
        if (strncmp(at, "(anonymous namespace)", 21) == 0)
            at += 20;
        else if (strncmp(at, "operator", 8) == 0 && (at == name || at[-1] == ':' || at[-1] == ' '))
            break;
        else if (*at == '<')
            depth++;
        else if (*at == '>')
            depth--;
        else if (*at == '(' && depth == 0)
            break;
        else if (*at == ' ' && depth == 0)
            start = at + 1;
    }
    return start;
}

/* The length of the name without its parameters. */
static inline size_t buran_filter_bare_length(const char *name) {
    const char *at;
    int depth = 0;
    for (at = name; *at; at++) {
        if (strncmp(at, "(anonymous namespace)", 21) == 0)
            at += 20;
        else if (strncmp(at, "operator()", 10) == 0)
            at += 9;
        else if (strncmp(at, "operator", 8) == 0 && (at[8] == '<' || at[8] == '>' || at[8] == '-')) {
            for (at += 8; *at == '<' || *at == '>' || *at == '-' || *at == '='; at++) {
            }
            at--;
        } else if (*at == '<')
            depth++;
        else if (*at == '>')
            depth--;
        else if (*at == '(' && depth == 0)
            break;
    }
    return (size_t)(at - name);
}

static inline int buran_filter_name_matches(const buran_rule *rule, const char *mangled, const char *name,
                                            const char *without_type, const char *bare) {
    if (rule->mangled)
        return fnmatch(rule->pattern, mangled, 0) == 0;
    return fnmatch(rule->pattern, name, 0) == 0 || fnmatch(rule->pattern, without_type, 0) == 0 ||
           fnmatch(rule->pattern, bare, 0) == 0;
}

/* What the rules say of a function; `file` may be empty. */
static inline buran_verdict buran_filter_decide(const buran_filter *filter, const char *mangled, const char *name,
                                                const char *file) {
    buran_verdict by_name = BURAN_NO_RULE, by_file = BURAN_NO_RULE;
    const char *without_type = buran_filter_after_return_type(name);
    size_t length = buran_filter_bare_length(without_type), i;
    char *bare = (char *)malloc(length + 1);
    if (!bare)
        abort();
    memcpy(bare, without_type, length);
    bare[length] = '\0';
    for (i = 0; i < filter->count; i++) {
        buran_rule *rule = &filter->rules[i];
        int matches = rule->about_file ? *file && fnmatch(rule->pattern, file, 0) == 0
                                       : buran_filter_name_matches(rule, mangled, name, without_type, bare);
        if (!matches)
            continue;
        rule->matched = 1;
        if (rule->about_file)
            by_file = rule->verdict;
        else
            by_name = rule->verdict;
    }
    free(bare);
    return by_file == BURAN_EXCLUDE ? BURAN_EXCLUDE : by_name;
}

#endif
