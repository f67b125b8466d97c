-- Which words of events were entered, as the program that did so counts them: a scope that another
-- layout was entered of is entered anew. All that was entered before may lack the ends of long texts.
ALTER TABLE search_marks ADD COLUMN layout integer NOT NULL DEFAULT 1;
